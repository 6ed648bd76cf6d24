//! Parts of Tidings with one bug each. The checker must find every bug.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use temporalio_sdk::workflow_interceptors::{
    ContinueAsNewInput, ContinueAsNewResult, SyncWorkflowInterceptorContext, WorkflowInterceptor, WorkflowNext,
};
use tidings_model::records::KnownEvents;
use tidings_store::{InjectedFault, SqliteStore};
use tidings_workflows::CarriedState;

/// A bug of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// The store does not record the end of the first attempt.
    OutcomeNotRecorded,
    /// The store treats every event as new.
    NoDeduplication,
    /// The store forgets a retract that comes before its event.
    RetractForgotten,
    /// The store delays its answer to a written breaker. The store is correct; the delay shows what a paused process
    /// sees.
    LateAnswers,
}

impl Bug {
    /// Adds the bug to a store.
    pub fn put_into(self, store: &SqliteStore) {
        let struck = AtomicBool::new(false);
        store.set_faults(move |method| match (self, method) {
            (Self::OutcomeNotRecorded, "end_attempt") if !struck.swap(true, Ordering::SeqCst) => {
                Some(InjectedFault::Answer(Box::new(())))
            }
            (Self::NoDeduplication, "known_events") => Some(InjectedFault::Answer(Box::new(KnownEvents::default()))),
            (Self::RetractForgotten, "put_retracts") => Some(InjectedFault::Answer(Box::new(()))),
            (Self::LateAnswers, "put_breaker") => Some(InjectedFault::Late(Duration::from_millis(20))),
            _ => None,
        });
    }
}

/// Continues as new without handing anything over.
pub struct Forgetful;

impl WorkflowInterceptor for Forgetful {
    fn continue_as_new(
        &self,
        _: SyncWorkflowInterceptorContext,
        mut input: ContinueAsNewInput,
        next: WorkflowNext<'static, ContinueAsNewInput, ContinueAsNewResult>,
    ) -> ContinueAsNewResult {
        if let Some(carried) = input.input_mut::<CarriedState>() {
            *carried = CarriedState::default();
        }
        next.run(input)
    }
}
