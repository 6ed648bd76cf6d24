//! Reports about a message accepted by its relay: delivered, bounced, complained, opened.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::{Key, breaker::DeliveryEvidence, records::EmissionRecord};

mod effects;
mod event;
mod evidence;
mod report;

pub use effects::{DeliveryEffects, EffectContext, GRANT, WITHDRAW, delivery_effects};
pub use event::{CheckedDeliveryEvent, DeliveryEvent, MessageReference};
pub use evidence::proven_status;
pub use report::{BounceKind, DeliveryReport, EnhancedStatus, ReportKind, ReportRecord, parse_enhanced_status};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventEffect {
    pub message: Uuid,
    /// The event was recorded before, so nothing changed.
    pub again: bool,
    /// The key whose consent this event withdrew, now or when first delivered. Signal its workflow; if this
    /// fails, the open window will notice at its deadline.
    pub withdrawn: Option<Key>,
    /// Set if the event is new and a hard bounce or complaint.
    pub against: Option<TenantEvidence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventRejection {
    /// No relay has this message, or it belongs to another tenant.
    UnknownMessage,
    OtherRelay,
}

/// For the breaker of the relay which accepted the message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantEvidence {
    /// The relay's name at the time of the attempt.
    pub relay: String,
    pub tenant: String,
    pub evidence: DeliveryEvidence,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookRequest {
    pub relay: String,
    pub events: Vec<CheckedDeliveryEvent>,
    /// Set if the provider signs a token instead of the body.
    pub token: Option<OneTimeToken>,
    pub unusable: Vec<UnusablePart>,
}

/// Valid for a single body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneTimeToken {
    pub token: String,
    pub body_sha256: String,
}

/// A part of an authenticated request we cannot use: a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusablePart {
    /// The reason, without addresses.
    pub reason: String,
    pub size: u64,
    pub sha256: String,
    pub head: String,
    /// `head` contains the whole part except addresses.
    pub whole: bool,
    /// At most 20. One may be a message id.
    pub ids: BTreeSet<Uuid>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestRecorded {
    /// One result per event, in order.
    Events(Vec<Result<EventEffect, EventRejection>>),
    /// The token was used with another body before. Nothing was recorded.
    TokenOfAnotherBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterEmitted {
    /// One result per event, in order.
    Now(Vec<Result<EventEffect, EventRejection>>),
    /// Nothing was recorded.
    Before(EmissionRecord),
    Unknown,
}
