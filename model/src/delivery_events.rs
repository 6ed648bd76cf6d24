//! Reports about a message after its relay accepted it: delivered, bounced, complained of, opened.

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

// A request of a webhook, once it is authentic and read: everything that the store records in one transaction.

/// The contents of an authentic request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookRequest {
    /// The relay whose webhook received the request.
    pub relay: String,
    pub events: Vec<Reported>,
    /// Set if the provider signs a token instead of the body.
    pub token: Option<OneTimeToken>,
    pub unusable: Vec<Unusable>,
}

/// A token that counts for one body only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTimeToken {
    pub token: String,
    /// SHA-256 of the body that came with the token, in hex.
    pub body_sha256: String,
}

/// A part of an authentic request that cannot be used: a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// The reason in words, without addresses.
    pub reason: String,
    /// Bytes of the whole part.
    pub size: u64,
    /// SHA-256 of the whole part, in hex.
    pub sha256: String,
    /// The beginning of the part, without addresses.
    pub head: String,
    /// The head has all of the part, apart from addresses.
    pub whole: bool,
    /// The UUIDs in the part, 20 at most. One of them may be a message's.
    pub ids: BTreeSet<Uuid>,
}

/// The answer of the store to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRecorded {
    /// For each event, in order, its effect.
    Events(Vec<Result<Recorded, Unrecorded>>),
    /// The token came with another body before. Nothing was recorded.
    TokenOfAnotherBody,
}

/// The answer of the store to the emission of a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterEmitted {
    /// The letter is marked. For each event, in order, its effect.
    Now(Vec<Result<Recorded, Unrecorded>>),
    /// The letter was emitted before. Nothing was recorded.
    Before(Emitted),
    /// The store does not have the letter. Nothing was recorded.
    Unknown,
}
