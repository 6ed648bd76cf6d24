//! The parameters of a path.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The parameters of the path. One that cannot be read names nothing.
pub(super) struct Named<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // PostgreSQL stores no NUL.
        if parts.uri.path().contains("%00") {
            return Err(Problem::NotFound);
        }
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(named)| Self(named)).map_err(|_| Problem::NotFound)
    }
}
