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
    mailbox::{self, EmailContent, EmailId, EmailSummary, Mailbox},
    pages::{self, PicturePolicy, guard_request, harden},
};

const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                           frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
#[derive(Clone, Serialize)]
pub(super) struct InboxAddresses {
    pub smtp: String,
    pub temporal_ui: String,
}

struct InboxState {
    mailbox: Arc<Mailbox>,
    about: InboxAddresses,
}

/// Serves until dropped.
///
/// # Errors
/// The listener fails.
pub(super) async fn serve(listener: TcpListener, mailbox: Arc<Mailbox>, about: InboxAddresses) -> io::Result<()> {
    axum::serve(listener, routes(mailbox, about)).await
}

fn routes(mailbox: Arc<Mailbox>, about: InboxAddresses) -> Router {
    Router::new()
        .route("/", get(static_page(include_str!("inbox/page.html"), "text/html; charset=utf-8")))
        .route("/page.js", get(static_page(include_str!("inbox/page.js"), "text/javascript; charset=utf-8")))
        .route("/page.css", get(static_page(include_str!("inbox/page.css"), "text/css; charset=utf-8")))
        .route("/api/about", get(async |State(inbox): State<Arc<InboxState>>| Json(inbox.about.clone())))
        .route("/api/mails", get(list))
        .route("/api/mails/{id}", get(content))
        .route("/api/mails/{id}/html", get(html))
        .route("/api/mails/{id}/raw", get(raw))
        .route("/api/arrivals", get(arrivals))
        .layer(from_fn(guard_request))
        .layer(map_response(harden))
        .with_state(Arc::new(InboxState { mailbox, about }))
}

fn static_page(body: &'static str, kind: &'static str) -> impl Fn() -> std::future::Ready<Response> + Clone {
    move || {
        let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, PAGE_POLICY)];
        std::future::ready((headers, body).into_response())
    }
}

async fn list(State(inbox): State<Arc<InboxState>>) -> Json<Vec<EmailSummary>> {
    Json(inbox.mailbox.list_emails())
}

async fn content(
    State(inbox): State<Arc<InboxState>>,
    Path(id): Path<EmailId>,
) -> Result<Json<EmailContent>, EmailLoadError> {
    Ok(Json(EmailContent::parse_email(&find(&inbox, id).await?)))
}

async fn html(State(inbox): State<Arc<InboxState>>, Path(id): Path<EmailId>) -> Result<Response, EmailLoadError> {
    let html = mailbox::html(&find(&inbox, id).await?).ok_or(EmailLoadError::Mail)?;
    Ok(pages::framed_response(&html, PicturePolicy::Loaded))
}

async fn raw(State(inbox): State<Arc<InboxState>>, Path(id): Path<EmailId>) -> Result<Response, EmailLoadError> {
    let mail = find(&inbox, id).await?;
    let headers = [
        (header::CONTENT_TYPE, "message/rfc822".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.eml\"")),
    ];
    Ok((headers, mail).into_response())
}

/// Sends an event when the list changes. Several changes may be merged into one event.
async fn arrivals(State(inbox): State<Arc<InboxState>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = stream::unfold(inbox.mailbox.arrivals(), async |mut arrivals| {
        arrivals.changed().await.ok()?;
        Some((Ok(Event::default().data("arrived")), arrivals))
    });
    Sse::new(changes).keep_alive(KeepAlive::default())
}

async fn find(inbox: &InboxState, id: EmailId) -> Result<Vec<u8>, EmailLoadError> {
    inbox.mailbox.read_email(id).await.map_err(EmailLoadError::Unreadable)?.ok_or(EmailLoadError::Mail)
}

enum EmailLoadError {
    Mail,
    Unreadable(io::Error),
}

impl IntoResponse for EmailLoadError {
    fn into_response(self) -> Response {
        match self {
            Self::Mail => (StatusCode::NOT_FOUND, "no such email, or no such part\n").into_response(),
            Self::Unreadable(error) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("the email cannot be read: {error}\n")).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests;
