//! Activity definitions by name, as called by the workflows. `tidings-activities` implements them.
#![expect(clippy::missing_errors_doc, reason = "the implementations in `tidings-activities` document their errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::{
    message::contract,
    retention::{Cutoff, CutoffsInput, Purged},
    step::{
        AuditInput, ClaimAnswer, ClaimInput, CloseInput, DeadLettersInput, Ending, Plan, PlanInput, RenderInput,
        Rendered, ReopenInput, Resumed, RetractInput, SendInput, Sent, StashInput, Stashed,
    },
    subscription::{DeliverAnswer, DeliverInput},
    window::Closed,
};

/// See each input in [`contract`](tidings_model::step).
pub struct DigestActivities;

#[activity_definitions]
impl DigestActivities {
    #[activity(name = "plan")]
    pub fn plan(_: PlanInput) -> Result<Plan, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "stash")]
    pub fn stash(_: StashInput) -> Result<Stashed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "load")]
    pub fn claim(_: ClaimInput) -> Result<ClaimAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "render")]
    pub fn render(_: RenderInput) -> Result<Rendered, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "send")]
    pub fn send(_: SendInput) -> Result<Sent, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "close")]
    pub fn close(_: CloseInput) -> Result<Ending, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "retract")]
    pub fn retract(_: RetractInput) -> Result<(), ActivityError> {
        unimplemented!()
    }

    #[activity(name = "reopen")]
    pub fn reopen(_: ReopenInput) -> Result<Resumed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "audit")]
    pub fn audit(_: AuditInput) -> Result<(), ActivityError> {
        unimplemented!()
    }

    #[activity(name = "bury")]
    pub fn dead_letters(_: DeadLettersInput) -> Result<(), ActivityError> {
        unimplemented!()
    }
}

/// See each input in [`message::contract`](tidings_model::message::contract).
pub struct MessageActivities;

#[activity_definitions]
impl MessageActivities {
    #[activity(name = "message_send")]
    pub fn send(_: contract::SendInput) -> Result<contract::Attempted, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_close")]
    pub fn close(_: contract::CloseInput) -> Result<Closed, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_retry")]
    pub fn retry(_: contract::RetryInput) -> Result<contract::Retried, ActivityError> {
        unimplemented!()
    }
}

/// See each input in [`retention`](tidings_model::retention).
pub struct RetentionActivities;

#[activity_definitions]
impl RetentionActivities {
    #[activity(name = "upkeep_cutoffs")]
    pub fn cutoffs(_: CutoffsInput) -> Result<Vec<Cutoff>, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "upkeep_purge")]
    pub fn purge(_: Cutoff) -> Result<Purged, ActivityError> {
        unimplemented!()
    }
}

/// See the input in [`subscription`](tidings_model::subscription).
pub struct SubscriptionActivities;

#[activity_definitions]
impl SubscriptionActivities {
    #[activity(name = "deliver_notices")]
    pub fn deliver(_: DeliverInput) -> Result<DeliverAnswer, ActivityError> {
        unimplemented!()
    }
}

/// For `#[activity(definition = ...)]`.
pub mod definitions {
    pub mod digest {
        pub use super::super::digest_activities::{
            Audit, Claim, Close, DeadLetters, Plan, Render, Reopen, Retract, Send, Stash,
        };
    }
    pub mod message {
        pub use super::super::message_activities::{Close, Retry, Send};
    }
    pub mod retention {
        pub use super::super::retention_activities::{Cutoffs, Purge};
    }
    pub mod subscription {
        pub use super::super::subscription_activities::Deliver;
    }
}
