//! `audit`: records operators' commands in the audit trail.

use tidings_model::step::AuditInput;

use crate::{deps::Deps, error::Error};

/// Records each command once.
///
/// # Errors
/// The store cannot answer.
pub async fn run(deps: &Deps, input: &AuditInput) -> Result<(), Error> {
    Ok(deps.store.audit(input).await?)
}
