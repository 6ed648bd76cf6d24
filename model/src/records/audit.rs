//! The audit trail as shown to operators.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::{records::PageRequest, without_addresses};

/// An entry of the audit trail with its subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditRecord {
    /// Unique in this database.
    pub audit_id: i64,
    pub at: Timestamp,
    /// Empty for every tenant.
    pub tenant: String,
    /// Empty for every digest type, or none.
    pub digest_type: String,
    /// Empty for every user, or none.
    pub user: String,
    pub digest_id: Option<Uuid>,
    /// The single message concerned.
    pub message: Option<Uuid>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: AuditActor,
    pub action: String,
    pub why: String,
}

impl AuditRecord {
    /// Operators may have written addresses into the reason.
    pub fn forget_addresses(&mut self) {
        self.why = without_addresses(&self.why);
    }

    /// Keeps the action.
    pub fn forget_operator(&mut self) {
        self.actor = AuditActor::Operator("operator".to_owned());
        self.why.clear();
    }
}

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
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE"))]
    pub digest_type: Option<String>,
    /// Only entries about this user
    #[cfg_attr(feature = "clap", arg(long, value_name = "USER", requires = "tenant"))]
    pub user: Option<String>,
    /// Only entries by this operator, by `recipient` or by `tidings`
    #[cfg_attr(feature = "clap", arg(long, value_name = "LOGIN"))]
    pub actor: Option<AuditActor>,
    // The first words of an action: `relay_open` selects `relay_open ses`.
    /// Only entries with this action
    #[cfg_attr(feature = "clap", arg(long, value_name = "ACTION"))]
    pub action: Option<String>,
    /// Only entries of this time or later: a time as in RFC 3339, or a span before now as in `2h` or `14d`
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub since: Option<Timestamp>,
    /// Only entries before this time
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", value_parser = crate::when::parse_past))]
    #[serde(deserialize_with = "crate::when::optional_moment")]
    pub until: Option<Timestamp>,
    #[cfg_attr(feature = "clap", arg(skip))]
    #[serde(skip)]
    pub page: PageRequest<AuditPlace>,
}

/// Who made a change: a single word in SQL, JSON and on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum AuditActor {
    Tidings,
    /// Through a preferences page or a provider's link.
    Recipient,
    /// An operator's login.
    Operator(String),
}

impl AuditActor {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tidings => "tidings",
            Self::Recipient => "recipient",
            Self::Operator(login) => login,
        }
    }

    /// An empty login means Tidings itself, e.g. after a cancel.
    #[must_use]
    pub fn of_login(login: &str) -> Self {
        if login.is_empty() { Self::Tidings } else { Self::from(login.to_owned()) }
    }
}

impl From<String> for AuditActor {
    fn from(word: String) -> Self {
        [Self::Tidings, Self::Recipient]
            .into_iter()
            .find(|actor| actor.as_str() == word)
            .unwrap_or(Self::Operator(word))
    }
}

impl From<&str> for AuditActor {
    fn from(word: &str) -> Self {
        Self::from(word.to_owned())
    }
}

impl Serialize for AuditActor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for AuditActor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_reads_back_from_its_word() {
        for actor in [AuditActor::Tidings, AuditActor::Recipient, AuditActor::Operator("ann".to_owned())] {
            assert_eq!(AuditActor::from(actor.to_string()), actor);
        }
        assert_eq!(AuditActor::of_login(""), AuditActor::Tidings);
        assert_eq!(AuditActor::of_login("ann"), AuditActor::Operator("ann".to_owned()));
    }
}
