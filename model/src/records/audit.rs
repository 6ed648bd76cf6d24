//! The audit trail, as operators read it.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default)]
pub struct AuditFilter {
    /// Only entries about this tenant
    #[cfg_attr(feature = "clap", arg(long, value_name = "TENANT"))]
    pub tenant: Option<String>,
    /// Only entries about this digest type
    #[cfg_attr(feature = "clap", arg(long = "type", value_name = "TYPE"))]
    #[serde(rename = "type")]
    pub digest_type: Option<String>,
    /// Only entries about this user
    #[cfg_attr(feature = "clap", arg(long, value_name = "USER", requires = "tenant"))]
    pub user: Option<String>,
    /// Only entries by this operator, by `recipient` or by `tidings`
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOGIN"))]
    pub actor: Option<Actor>,
    // The first words of an action: `relay_open` selects `relay_open ses`.
    /// Only entries with this action
    #[cfg_attr(feature = "clap", arg(long, value_name = "ACTION"))]
    pub action: Option<String>,
    /// Only entries of this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub since: Option<Timestamp>,
    /// Only entries before this time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub until: Option<Timestamp>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: Page<AuditPlace>,
}

// Actors of the audit trail.

/// The actor of a change: in SQL, JSON and on the command line one word.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
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
