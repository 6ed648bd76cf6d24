//! The activities of the upkeep workflow by name. `tidings-activities` implements these definitions.
#![expect(clippy::missing_errors_doc, reason = "the implementations in `tidings-activities` document their errors")]

use temporalio_common::ActivityError;
use temporalio_macros::activity_definitions;
use tidings_model::retention::{Cutoff, CutoffsInput, Purged};

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

/// The definitions, for `#[activity(definition = ...)]`.
pub mod definitions {
    pub use super::retention_activities::{Cutoffs, Purge};
}
