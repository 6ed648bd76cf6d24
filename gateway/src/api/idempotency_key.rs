//! The header `Idempotency-Key`, in quotes or without: another spelling of a thing's own id (rule 41).

use axum::http::HeaderMap;
use tidings_model::limits;

use super::refusal::Fault;

const HEADER: &str = "idempotency-key";

/// Reads the header.
pub(super) fn read(headers: &HeaderMap) -> Result<Option<&str>, Fault> {
    let Some(key) = headers.get(HEADER) else { return Ok(None) };
    let key = key.to_str().map_err(|_| Fault::new(HEADER, "is not ASCII text"))?.trim();
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    limits::id(HEADER, key)?;
    Ok(Some(key))
}
