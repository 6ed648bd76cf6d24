//! The activity of the subscription workflow by name. `tidings-activities` implements this definition.
#![expect(clippy::missing_errors_doc, reason = "the implementation in `tidings-activities` documents its errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::subscription::{DeliverAnswer, DeliverInput};

/// See the input in [`subscription`](tidings_model::subscription).
pub struct SubscriptionActivities;

#[activity_definitions]
impl SubscriptionActivities {
    #[activity(name = "deliver_notices")]
    pub fn deliver(_: DeliverInput) -> Result<DeliverAnswer, ActivityError> {
        unimplemented!()
    }
}

/// The definition, for `#[activity(definition = ...)]`.
pub mod definitions {
    pub use super::subscription_activities::Deliver;
}
