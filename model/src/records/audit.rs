//! The audit trail, as operators read it.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::Actor;

/// An entry of the audit trail with its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditRecord {
    /// Number of the entry in this database.
    pub audit_id: i64,
    pub at: Timestamp,
    /// Empty: every tenant.
    pub tenant: String,
    /// Empty: every digest type, or none.
    pub digest_type: String,
    /// Empty: every user, or none.
    pub user: String,
    pub digest_id: Option<Uuid>,
    /// The single message that the entry is about.
    pub message: Option<Uuid>,
    pub actor: Actor,
    pub action: String,
    pub why: String,
}
