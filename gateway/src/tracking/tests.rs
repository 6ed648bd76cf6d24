//! Pictures and redirects through the router, with a real store.

use std::{path::Path as FilePath, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
};
use tidings_model::settings::Settings;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::*;
use crate::routes::tests::{over, public, settings, sqlite};

const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const TARGET: &str = "https://app.example/a?b=c&d=%C3%BC#e";

/// Over a store without tables: every write fails.
async fn router(folder: &FilePath) -> Router {
    let settings = Settings { link_keys: Some(KEYS.parse().unwrap()), ..settings() };
    public(over(sqlite(folder).await, settings))
}

fn click() -> String {
    let link = ClickLink { tenant: "acme".into(), message: Uuid::from_u128(7), target: TARGET.into() };
    format!("/c/{}", link.token(&KEYS.parse().unwrap()).unwrap())
}

fn picture() -> String {
    let link = OpenLink { tenant: "acme".into(), message: Uuid::from_u128(7) };
    format!("/o/{}", link.token(&KEYS.parse().unwrap()).unwrap())
}

async fn answer(router: &Router, method: Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    timeout(Duration::from_secs(1), router.clone().oneshot(request)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_click_leads_to_its_target_without_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let router = router(folder.path()).await;
    for method in [Method::GET, Method::HEAD] {
        let answer = answer(&router, method, &click()).await;
        assert_eq!(answer.status(), StatusCode::FOUND);
        assert_eq!(answer.headers()[header::LOCATION], TARGET);
    }
}

#[tokio::test]
async fn the_picture_may_be_shown_on_other_sites() {
    let folder = tempfile::tempdir().unwrap();
    let answer = answer(&router(folder.path()).await, Method::GET, &picture()).await;
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "image/gif");
    assert_eq!(answer.headers()[CROSS_ORIGIN], "cross-origin");
    assert_eq!(to_bytes(answer.into_body(), 1_000).await.unwrap(), PICTURE);
}

#[tokio::test]
async fn a_token_of_anything_else_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let router = router(folder.path()).await;
    let token = |path: &str| path[3..].to_owned();
    for path in [format!("/o/{}", token(&click())), format!("/c/{}", token(&picture())), "/c/x".into(), "/o/x".into()] {
        let answer = answer(&router, Method::GET, &path).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{path}");
        assert!(!answer.headers().contains_key(header::LOCATION));
        assert_eq!(to_bytes(answer.into_body(), 1_000).await.unwrap(), "");
    }
}
