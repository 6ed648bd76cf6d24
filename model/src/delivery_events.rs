//! Reports about a message after its relay accepted it: delivered, bounced, complained of, opened.

use uuid::Uuid;

use crate::{Key, breaker::Evidence};

mod effects;
mod event;
mod evidence;
mod report;
mod request;

pub use effects::{Effects, GRANT, Known, WITHDRAW, effects};
pub use event::{DeliveryEvent, Reported, Which};
pub use evidence::proven_status;
pub use report::{Bounce, Kind, Report, ReportRecord, Status, enhanced};
pub use request::{LetterEmitted, OneTimeToken, RequestRecorded, Unusable, WebhookRequest};

/// The effect of a delivery event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The message that the event is about.
    pub message: Uuid,
    /// Set if the event was known already: nothing changed.
    pub again: bool,
    /// The key whose consent the event withdraws, now or at its first delivery. Signal the key's workflow; if the signal
    /// fails, the open window follows at its deadline.
    pub withdrawn: Option<Key>,
    /// The evidence against the mail of the message's tenant, if the event is one.
    pub against: Option<Against>,
}

/// The reason why an event has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// No relay was given such a message, or the message belongs to another tenant.
    UnknownMessage,
    /// Another relay was given the message.
    OtherRelay,
}

/// Evidence against a tenant's mail, for the breaker of the relay that took it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Against {
    /// The name under which the relay had the attempt.
    pub relay: String,
    pub tenant: String,
    pub evidence: Evidence,
}
