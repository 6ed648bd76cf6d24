//! The failures of activities, in the log. The SDK reports a failure only to Temporal, inside one workflow of thousands.

use futures::FutureExt as _;
use temporalio_sdk::{
    activities::ActivityError,
    interceptors::{ActivityInboundInterceptor, ExecuteActivityInput, ExecuteActivityOutput, Next},
};
use tidings_model::Alert;

/// Logs each attempt at an activity that fails, under `alert=activity_failed`. The SDK's span around it has the workflow.
pub struct Failures;

impl ActivityInboundInterceptor for Failures {
    fn execute_activity<'a>(
        &'a self,
        input: ExecuteActivityInput,
        next: Next<'a, ExecuteActivityInput, ExecuteActivityOutput<'a>>,
    ) -> ExecuteActivityOutput<'a> {
        let info = input.activity_info();
        let (activity, attempt) = (info.activity_type.clone(), info.attempt);
        let done = next.run(input).inspect(move |done| {
            if let Err(ActivityError::Application(failure)) = done {
                let next = if failure.is_non_retryable() {
                    "the workflow waits for you, and tries it again within an hour"
                } else {
                    "Temporal tries it again"
                };
                tracing::warn!(alert = %Alert::ActivityFailed, activity, attempt, why = %failure, "{next}");
            }
        });
        done.boxed()
    }
}
