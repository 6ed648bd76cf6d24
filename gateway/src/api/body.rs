//! The JSON body of a command.

use axum::http::HeaderMap;
use serde::{Deserialize, de::DeserializeOwned};

use super::{
    events::body::Kind,
    refusal::{Fault, Refusal},
};
use crate::problem::Problem;

/// The body of a command without terms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Why {
    /// The reason, for the audit trail.
    pub why: String,
}

/// Reads a body. An empty one counts as an object without fields.
pub(super) fn read<T: DeserializeOwned>(headers: &HeaderMap, bytes: &[u8]) -> Result<T, Refusal> {
    if Kind::of(headers)? != Kind::Json {
        return Err(Problem::UnsupportedMedia.into());
    }
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(bytes).map_err(|error| Refusal::body(Fault::new("", error.to_string())))
}
