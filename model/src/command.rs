//! Operator commands for a key's workflow, and their answers. Each command is a workflow update; the audit trail records who
//! gave it, why and when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Event,
    limits::{self, Invalid},
    pause::Paused,
    records::{Actor, AuditEntry},
    settings::FrequencyLimits,
    when,
    window::{DeadlineBasis, Window},
};

mod argument;

pub use argument::{Argument, Command};

/// Bytes of [`Order::by`].
pub const BY_BYTES: usize = 64;
/// Bytes of [`Order::why`].
pub const WHY_BYTES: usize = 500;

/// The operator who gives a command, and the reason. The audit trail keeps both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Order {
    /// An operator's login; never an address, because workflow history keeps it.
    pub by: String,
    /// In words, for whoever reads the audit trail.
    pub why: String,
}

impl Order {
    /// Checks both fields: neither may be empty or have control characters, and `by` must not be an address.
    ///
    /// # Errors
    /// Names the field, what is wrong and the limit.
    pub fn check(&self) -> Result<(), Invalid> {
        limits::line("by", &self.by, BY_BYTES)?;
        if self.by.contains('@') {
            return Err(Invalid::new("by", "is an address, which workflow history must not keep; a login will do"));
        }
        limits::line("why", &self.why, WHY_BYTES)
    }

    /// The entry of the audit trail for what the operator did.
    #[must_use]
    pub fn entry(&self, action: &str, at: Timestamp) -> AuditEntry {
        AuditEntry { at, actor: Actor::from(self.by.clone()), action: action.to_owned(), why: self.why.clone() }
    }
}

/// The update `hold`: collect, but send nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hold {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// It ends by itself then; `None`: only a release ends it. JSON takes RFC 3339 and seconds since 1970.
    #[serde(default, deserialize_with = "when::optional")]
    pub until: Option<Timestamp>,
}

/// The update `release`: end a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// The key is one of many that are released together: what is overdue waits for the key's share of the spread (rule 30). A
    /// former version does not send it, and releases at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
}

/// The release of one key, which an operator wants at once.
impl From<Order> for Release {
    fn from(order: Order) -> Self {
        Self { order, spread: false }
    }
}

/// The update `retime`: give the open window another deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retime {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// The deadline; `None`: what today's configuration and the recipient's choices make of it.
    /// JSON takes RFC 3339 and seconds since 1970.
    #[serde(default, deserialize_with = "when::optional", skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// The update `reopen`: take a digest that ended without a mail, or that a terminated run left behind, up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopen {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: Order,
    /// The digest to resume.
    pub digest_id: Uuid,
    /// An attempt of it was past the dot, so that the recipient may have the mail; send it even so.
    #[serde(default)]
    pub may_duplicate: bool,
}

/// The answer of the update `flush`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Flushed {
    /// Events that go out now. Zero: nothing was pending.
    pub events: u64,
    /// The digest in delivery, which goes first.
    pub behind: Option<Uuid>,
    /// The key is on hold, and they go out when that ends.
    #[serde(default)]
    pub held: bool,
    /// The digest in delivery waited to be taken back, for a better hour or for its next attempt, and waits no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hurried: bool,
    /// An operator's pause covers the key, and they go out when that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

/// The answer of the update `hold`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Held {
    /// Pending events. Without events and without a digest in delivery nothing was held.
    pub events: u64,
    /// The digest in delivery: no attempt starts before the hold ends.
    pub delivering: Option<Uuid>,
}

/// The answer of the update `release`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Released {
    /// Set if the key was on hold.
    pub held: bool,
    /// Events that wait.
    pub events: u64,
    /// Time when the events are due. A time in the past: they go out now.
    pub due_at: Option<Timestamp>,
    /// An operator's pause covers the key, and nothing goes out before that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
}

/// The answer of the update `drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dropped {
    /// Events that waited, and are in no mail now. The ledger keeps them.
    pub events: u64,
    /// The digest that was in delivery. If an attempt was past the dot, the digest ends as sent or ambiguous.
    pub delivering: Option<Uuid>,
}

/// The answer of the update `retime`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retimed {
    /// Events that wait. With none of them nothing was done.
    pub events: u64,
    /// The deadline before.
    pub was: Option<Timestamp>,
    /// The deadline now.
    pub due_at: Option<Timestamp>,
    /// Why then, in words.
    pub why: String,
}

/// The answer of the update `reopen`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reopened {
    /// Events that go out under the digest again.
    pub events: u64,
    /// Why it was not taken up again, in words; `None`: it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The answer of the query `due`: what a claim would take now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Due {
    /// The window that collects.
    pub window: Window,
    /// Those of its events that are not in the store yet.
    pub events: Vec<Event>,
    /// Events beyond a page, which are on their way to the store.
    pub more: u64,
    /// The limits that the window keeps; see [`Plan::limits`](crate::step::Plan::limits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    /// The schedule that its deadline follows; see [`Plan::basis`](crate::step::Plan::basis).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<DeadlineBasis>,
    /// See [`Plan::promised_at`](crate::step::Plan::promised_at).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_at: Option<Timestamp>,
}
