//! The audit trail, as operators read it.

use jiff::Timestamp;
use serde::Serialize;
use uuid::Uuid;

use super::{Actor, Page};
use crate::without_addresses;

/// An entry of the audit trail with its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: Actor,
    pub action: String,
    pub why: String,
}

impl AuditRecord {
    /// Removes the addresses that an operator may have written into the reason.
    pub fn forget_addresses(&mut self) {
        self.why = without_addresses(&self.why);
    }

    /// Leaves that something was done, and not who did it and why.
    pub fn forget_operator(&mut self) {
        self.actor = Actor::Operator("operator".to_owned());
        self.why.clear();
    }
}

/// The place of an entry in a listing.
pub type AuditPlace = (Timestamp, i64);

/// A filter of audit entries, the latest first. What is `None` selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFilter {
    pub tenant: Option<String>,
    pub digest_type: Option<String>,
    pub user: Option<String>,
    pub actor: Option<Actor>,
    /// The action or its first words: `relay_open` selects `relay_open ses`.
    pub action: Option<String>,
    /// Entries of this time or later.
    pub since: Option<Timestamp>,
    /// Entries before this time.
    pub until: Option<Timestamp>,
    pub page: Page<AuditPlace>,
}
