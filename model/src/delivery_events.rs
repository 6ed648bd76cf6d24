//! Reports about a message after its relay accepted it: delivered, bounced, complained, opened.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::{Key, breaker::Evidence, records::Emitted};

mod effects;
mod event;
mod evidence;
mod report;

pub use effects::{Effects, GRANT, Known, WITHDRAW, effects};
pub use event::{DeliveryEvent, Reported, Which};
pub use evidence::proven_status;
pub use report::{Bounce, Kind, Report, ReportRecord, Status, enhanced};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub message: Uuid,
    /// `true` if the event was recorded before, so nothing changed.
    pub again: bool,
    /// The key whose consent this event withdrew, now or when it was first delivered. Signal its workflow; if
    /// this fails, the open window will notice at its deadline.
    pub withdrawn: Option<Key>,
    /// Set if the event is new and a hard bounce or complaint.
    pub against: Option<Against>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecorded {
    /// No relay has this message, or it belongs to another tenant.
    UnknownMessage,
    /// Another relay sent the message.
    OtherRelay,
}

/// For the circuit breaker of the relay which accepted the message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Against {
    /// The relay's name at the time of the attempt.
    pub relay: String,
    pub tenant: String,
    pub evidence: Evidence,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookRequest {
    pub relay: String,
    pub events: Vec<Reported>,
    /// Set if the provider signs a token instead of the body.
    pub token: Option<OneTimeToken>,
    pub unusable: Vec<Unusable>,
}

/// A token that is valid for a single body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTimeToken {
    pub token: String,
    pub body_sha256: String,
}

/// A part of an authenticated request we cannot use: a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The reason, without addresses.
    pub reason: String,
    pub size: u64,
    pub sha256: String,
    pub head: String,
    /// `true` if `head` contains the whole part except addresses.
    pub whole: bool,
    /// At most 20. One may be a message id.
    pub ids: BTreeSet<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRecorded {
    /// One result per event, in order.
    Events(Vec<Result<Recorded, Unrecorded>>),
    /// The token was used with another body before. Nothing was recorded.
    TokenOfAnotherBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterEmitted {
    /// One result per event, in order.
    Now(Vec<Result<Recorded, Unrecorded>>),
    /// Nothing was recorded.
    Before(Emitted),
    /// No such letter.
    Unknown,
}
