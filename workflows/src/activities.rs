//! Activity definitions by name. `tidings-activities` implements them.
#![expect(clippy::missing_errors_doc, reason = "the implementations in `tidings-activities` document their errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::{
    message::contract,
    retention::{CutoffsInput, PurgeAnswer, RetentionCutoff},
    step::{
        AuditInput, ClaimAnswer, ClaimInput, CloseAnswer, CloseDigestInput, DeadLettersInput, Plan, PlanInput,
        RenderAnswer, RenderInput, ReopenAnswer, ReopenInput, RetractInput, SendAnswer, SendDigestInput, StashAnswer,
        StashInput,
    },
    subscription::{DeliverAnswer, DeliverInput},
    window::WindowEnd,
};

/// See each input in [`step`](tidings_model::step).
pub struct DigestActivities;

#[activity_definitions]
impl DigestActivities {
    #[activity(name = "plan")]
    pub fn plan(_: PlanInput) -> Result<Plan, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "stash")]
    pub fn stash(_: StashInput) -> Result<StashAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "load")]
    pub fn claim(_: ClaimInput) -> Result<ClaimAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "render")]
    pub fn render(_: RenderInput) -> Result<RenderAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "send")]
    pub fn send(_: SendDigestInput) -> Result<SendAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "close")]
    pub fn close(_: CloseDigestInput) -> Result<CloseAnswer, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "retract")]
    pub fn retract(_: RetractInput) -> Result<(), ActivityError> {
        unimplemented!()
    }

    #[activity(name = "reopen")]
    pub fn reopen(_: ReopenInput) -> Result<ReopenAnswer, ActivityError> {
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
    pub fn send(_: contract::MessageSendInput) -> Result<contract::AttemptResult, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_close")]
    pub fn close(_: contract::MessageCloseInput) -> Result<WindowEnd, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "message_retry")]
    pub fn retry(_: contract::RetryInput) -> Result<contract::RetryResult, ActivityError> {
        unimplemented!()
    }
}

/// See each input in [`retention`](tidings_model::retention).
pub struct RetentionActivities;

#[activity_definitions]
impl RetentionActivities {
    #[activity(name = "upkeep_cutoffs")]
    pub fn cutoffs(_: CutoffsInput) -> Result<Vec<RetentionCutoff>, ActivityError> {
        unimplemented!()
    }

    #[activity(name = "upkeep_purge")]
    pub fn purge(_: RetentionCutoff) -> Result<PurgeAnswer, ActivityError> {
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
