//! The inbox in the browser. It lists the emails in the sink and shows each as HTML, text, headers or raw.

use std::{convert::Infallible, io, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header},
    middleware::{from_fn, map_response},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use futures::{Stream, stream};
use serde::Serialize;
use tokio::net::TcpListener;

use super::{
    mailbox::{self, Content, Id, Mailbox, Summary},
    pages::{self, Pictures, guard, harden},
};

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                           frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
#[derive(Clone, Serialize)]
pub(super) struct About {
    pub smtp: String,
    pub temporal_ui: String,
}

struct Inbox {
    mailbox: Arc<Mailbox>,
    about: About,
}

/// Serves until dropped.
///
/// # Errors
/// The listener fails.
pub(super) async fn serve(listener: TcpListener, mailbox: Arc<Mailbox>, about: About) -> io::Result<()> {
    axum::serve(listener, routes(mailbox, about)).await
}

fn routes(mailbox: Arc<Mailbox>, about: About) -> Router {
    Router::new()
        .route("/", get(page(include_str!("inbox/page.html"), "text/html; charset=utf-8")))
        .route("/page.js", get(page(include_str!("inbox/page.js"), "text/javascript; charset=utf-8")))
        .route("/page.css", get(page(include_str!("inbox/page.css"), "text/css; charset=utf-8")))
        .route("/api/about", get(async |State(inbox): State<Arc<Inbox>>| Json(inbox.about.clone())))
        .route("/api/mails", get(list))
        .route("/api/mails/{id}", get(content))
        .route("/api/mails/{id}/html", get(html))
        .route("/api/mails/{id}/raw", get(raw))
        .route("/api/arrivals", get(arrivals))
        .layer(from_fn(guard))
        .layer(map_response(harden))
        .with_state(Arc::new(Inbox { mailbox, about }))
}

fn page(body: &'static str, kind: &'static str) -> impl Fn() -> std::future::Ready<Response> + Clone {
    move || {
        let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, PAGE_POLICY)];
        std::future::ready((headers, body).into_response())
    }
}

async fn list(State(inbox): State<Arc<Inbox>>) -> Json<Vec<Summary>> {
    Json(inbox.mailbox.list())
}

async fn content(State(inbox): State<Arc<Inbox>>, Path(id): Path<Id>) -> Result<Json<Content>, Missing> {
    Ok(Json(Content::of(&find(&inbox, id).await?)))
}

async fn html(State(inbox): State<Arc<Inbox>>, Path(id): Path<Id>) -> Result<Response, Missing> {
    let html = mailbox::html(&find(&inbox, id).await?).ok_or(Missing::Mail)?;
    Ok(pages::framed(&html, Pictures::Loaded))
}

async fn raw(State(inbox): State<Arc<Inbox>>, Path(id): Path<Id>) -> Result<Response, Missing> {
    let mail = find(&inbox, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "message/rfc822".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.eml\"")),
    ];
    Ok((headers, mail).into_response())
}

/// Sends an event when the list changes. Several changes may be merged into one event.
async fn arrivals(State(inbox): State<Arc<Inbox>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = stream::unfold(inbox.mailbox.arrivals(), async |mut arrivals| {
        arrivals.changed().await.ok()?;
        Some((Ok(Event::default().data("arrived")), arrivals))
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}

async fn find(inbox: &Inbox, id: Id) -> Result<Vec<u8>, Missing> {
    inbox.mailbox.get(id).await.map_err(Missing::Unreadable)?.ok_or(Missing::Mail)
}

enum Missing {
    Mail,
    Unreadable(io::Error),
}

impl IntoResponse for Missing {
    fn into_response(self) -> Response {
        match self {
            Self::Mail => (StatusCode::NOT_FOUND, "no such mail, or no such part\n").into_response(),
            Self::Unreadable(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("the mail cannot be read: {error}\n")).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests;
