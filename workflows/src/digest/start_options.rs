//! Options of a start that a digest should not have (docs/producers.md). A library may set them for each workflow that it starts.

use std::{fmt, time::Duration};

use temporalio_workflow::WorkflowContextView;

/// The timeout of the run after one with a timeout: none at all cannot be asked for, as a run without inherits that of the run before.
pub(super) const NO_TIMEOUT: Duration = Duration::from_hours(24 * 3650);

/// What the start of a run sets although a digest waits as long as it has to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StartOptions {
    execution_timeout: Option<Duration>,
    run_timeout: Option<Duration>,
    has_retry_policy: bool,
    has_cron: bool,
}

impl StartOptions {
    pub fn new(ctx: &WorkflowContextView) -> Self {
        let set = |timeout: Option<Duration>| timeout.filter(|timeout| *timeout > Duration::ZERO);
        Self {
            execution_timeout: set(ctx.execution_timeout()),
            run_timeout: set(ctx.run_timeout()).filter(|timeout| *timeout < NO_TIMEOUT),
            has_retry_policy: ctx.retry_policy().is_some(),
            has_cron: ctx.cron_schedule().is_some_and(|cron| !cron.is_empty()),
        }
    }

    /// The next run can have another timeout for itself, and none that is longer than that of the whole chain of runs.
    pub fn has_run_timeout_alone(&self) -> bool {
        self.run_timeout.is_some() && self.execution_timeout.is_none()
    }
}

/// A line for each option; nothing without one.
impl fmt::Display for StartOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(timeout) = self.execution_timeout.or(self.run_timeout) {
            let seconds = timeout.as_secs();
            write!(f, "\n\nThe start set a timeout of {seconds} s, after which Temporal ends the run: set none.")?;
        }
        for (is_set, name) in [(self.has_retry_policy, "retry policy"), (self.has_cron, "cron schedule")] {
            if is_set {
                write!(f, "\n\nThe start set a {name}: set none.")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_is_named_and_a_plain_start_says_nothing() {
        assert_eq!(StartOptions::default().to_string(), "");
        let all = StartOptions {
            execution_timeout: Some(Duration::from_mins(1)),
            run_timeout: Some(Duration::from_secs(30)),
            has_retry_policy: true,
            has_cron: true,
        };
        let said = all.to_string();
        for part in ["a timeout of 60 s", "a retry policy: set none", "a cron schedule: set none"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn only_a_timeout_of_the_run_alone_can_be_left_behind() {
        let run_timeout = Some(Duration::from_secs(30));
        let alone = StartOptions { run_timeout, ..StartOptions::default() };
        assert!(alone.has_run_timeout_alone());
        assert!(!StartOptions { execution_timeout: run_timeout, ..alone }.has_run_timeout_alone());
        assert!(!StartOptions::default().has_run_timeout_alone());
    }
}
