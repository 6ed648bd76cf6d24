//! The workshop in `tidings dev` has a page for each template. It shows a message, and reloads it when a file
//! changes.
//!
//! It reads a developer's files, so it only listens on this machine and rejects other websites. The message is
//! sandboxed: its data may be hostile.

use std::{io, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, Query, State},
    http::{StatusCode, header},
    middleware::{from_fn, map_response},
    response::{IntoResponse as _, Redirect, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::{net::TcpListener, task::spawn_blocking};
use url::form_urlencoded;

use super::pages::{self, PicturePolicy, guard_request, harden};
use crate::Config;

mod fault;
mod making;
mod page;
mod spam;
mod templates;
mod wanted;

use fault::TemplateFindings;
use making::WorkshopState;
use page::TemplatePageParts;
use templates::FolderState;
use wanted::{ImageLoading, SpamCheck, TemplateQuery};

#[derive(Deserialize)]
struct TemplateListQuery {
    check: Option<String>,
}

#[derive(Deserialize)]
struct FileChangeQuery {
    seen: String,
}

/// Serves until dropped. `inbox` is the inbox URL.
///
/// # Errors
/// The listener fails.
pub(super) async fn serve(listener: TcpListener, config: Config, inbox: Option<String>) -> io::Result<()> {
    axum::serve(listener, routes(WorkshopState::new(config, inbox))).await
}

fn routes(bench: WorkshopState) -> Router {
    Router::new()
        .route("/", get(list_page))
        .route("/template", get(template_page).post(own_json))
        .route("/message", get(message_frame))
        .route("/changes", get(changes))
        .route(
            "/page.css",
            get(async || ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("workshop/page.css"))),
        )
        .route(
            "/page.js",
            get(async || {
                ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("workshop/page.js"))
            }),
        )
        .layer(DefaultBodyLimit::max(wanted::MAX_BYTES))
        .layer(from_fn(guard_request))
        .layer(map_response(harden))
        .with_state(Arc::new(bench))
}

async fn list_page(State(bench): State<Arc<WorkshopState>>, Query(listing): Query<TemplateListQuery>) -> Response {
    let files = FolderState::of_folder(bench.folder());
    let templates = bench.templates(&files).await;
    let found = match (&templates, listing.check) {
        (Ok(templates), Some(_)) => {
            let renderer = templates.renderer.clone();
            spawn_blocking(move || TemplateFindings::for_all(&renderer)).await.ok()
        }
        _ => None,
    };
    page::list_page(&bench, &files, templates.as_ref().map(|templates| &*templates.renderer), found.as_ref())
}

async fn template_page(State(bench): State<Arc<WorkshopState>>, Query(wanted): Query<TemplateQuery>) -> Response {
    let files = FolderState::of_folder(bench.folder());
    let (templates, made) = match bench.templates(&files).await {
        Ok(templates) => {
            let made = making::render_message(&bench, &templates.renderer, &wanted).await;
            (Some(templates), made)
        }
        Err(fault) => (None, Err(fault)),
    };
    let found = match &templates {
        Some(templates) => templates.findings_for(&wanted.name).await,
        None => None,
    };
    let spam = match &made {
        Ok(made) if wanted.spam == SpamCheck::On => Some(spam::score_message(&bench, &made.mail).await),
        _ => None,
    };
    let own = bench.kept.find_json(&wanted.data);
    let renderer = templates.as_ref().map(|templates| &*templates.renderer);
    let sample = || renderer.and_then(|renderer| renderer.sample_json(&wanted.name).ok()).unwrap_or_default();
    let json = own.as_deref().unwrap_or_else(sample);
    page::template_page(
        &bench,
        &files,
        &wanted,
        TemplatePageParts { renderer, made: made.as_ref(), found: found.as_deref(), spam, json },
    )
}

async fn own_json(
    State(bench): State<Arc<WorkshopState>>,
    Query(wanted): Query<TemplateQuery>,
    form: String,
) -> Redirect {
    let json = form_urlencoded::parse(form.as_bytes()).find(|(name, _)| name == "json").map(|(_, json)| json);
    let data = json.filter(|json| !json.trim().is_empty()).map(|json| bench.kept.store_json(&json).to_string());
    let wanted = TemplateQuery { data: data.unwrap_or_default(), key: String::new(), spam: SpamCheck::Off, ..wanted };
    Redirect::to(&page::template_url(&wanted))
}

async fn message_frame(State(bench): State<Arc<WorkshopState>>, Query(wanted): Query<TemplateQuery>) -> Response {
    let made = match bench.templates(&FolderState::of_folder(bench.folder())).await {
        Ok(templates) => making::render_message(&bench, &templates.renderer, &wanted).await,
        Err(fault) => Err(fault),
    };
    let pictures = match wanted.images {
        ImageLoading::On => PicturePolicy::Loaded,
        ImageLoading::Off => PicturePolicy::Blocked,
    };
    match made {
        Ok(made) => pages::framed_response(&making::in_scheme(&made.mail.html, wanted.scheme), pictures),
        Err(fault) => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{}: {}\n", fault.place, fault.problem)).into_response()
        }
    }
}

/// Long poll: returns 200 as soon as a file changes, or 204 after a while without changes.
async fn changes(State(bench): State<Arc<WorkshopState>>, Query(waiting): Query<FileChangeQuery>) -> StatusCode {
    let folder = bench.folder().map(ToOwned::to_owned);
    if templates::wait_for_change(folder, &waiting.seen).await { StatusCode::OK } else { StatusCode::NO_CONTENT }
}

#[cfg(test)]
mod tests;
