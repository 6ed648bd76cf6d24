//! A namespace that does not exist: there Temporal's server finds no workflow and no schedule either, and tells the one from
//! the other in words only.

use temporalio_client::tonic::Status;

/// Nothing was looked for: the namespace is not there.
#[derive(Debug, thiserror::Error)]
#[error("{}; check TEMPORAL_NAMESPACE", .0.trim_end_matches('.'))]
pub struct Missing(String);

/// What the server did not find is what was looked for.
///
/// # Errors
/// It is the namespace.
pub fn is_there(not_found: &Status) -> Result<(), Missing> {
    let said = not_found.message();
    if said.starts_with("Namespace ") { Err(Missing(said.to_owned())) } else { Ok(()) }
}
