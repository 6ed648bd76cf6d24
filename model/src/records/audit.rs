//! The audit trail, as operators read it.

use std::fmt;

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use crate::{records::Page, without_addresses};

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

// Actors of the audit trail.

/// The actor of a change: in SQL, JSON and on the command line one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Tidings itself.
    Tidings,
    /// The recipient, by a preference page or a provider's link.
    Recipient,
    /// An operator, by login.
    Operator(String),
}

impl Actor {
    /// The word in the audit trail.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tidings => "tidings",
            Self::Recipient => "recipient",
            Self::Operator(login) => login,
        }
    }

    /// The operator with this login. Without a login Tidings acts by itself, for example after a cancel.
    #[must_use]
    pub fn of_login(login: &str) -> Self {
        if login.is_empty() { Self::Tidings } else { Self::from(login.to_owned()) }
    }
}

/// Reads the word in the audit trail.
impl From<String> for Actor {
    fn from(word: String) -> Self {
        [Self::Tidings, Self::Recipient]
            .into_iter()
            .find(|actor| actor.as_str() == word)
            .unwrap_or(Self::Operator(word))
    }
}

impl From<&str> for Actor {
    fn from(word: &str) -> Self {
        Self::from(word.to_owned())
    }
}

impl Serialize for Actor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_reads_back_from_its_word() {
        for actor in [Actor::Tidings, Actor::Recipient, Actor::Operator("ann".to_owned())] {
            assert_eq!(Actor::from(actor.to_string()), actor);
        }
        assert_eq!(Actor::of_login(""), Actor::Tidings);
        assert_eq!(Actor::of_login("ann"), Actor::Operator("ann".to_owned()));
    }
}
