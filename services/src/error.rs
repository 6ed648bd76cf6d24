//! Errors from activities, and how each one ends (rule 52).

use std::time::Duration;

use jiff::Timestamp;
use temporalio_common::error::ApplicationFailure;
use temporalio_sdk::activities::ActivityError;
use tidings_model::{process::WorkerDisagreement, rules::plan::missing_table};
use tidings_store::{ErrorEnd, FailurePhase};

use crate::processes::AgreementError;

const NEXT_WORKER: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    /// The team's own directory is not responding, and its last response for this person is missing or too
    /// old.
    #[error("the team's own directory of recipients does not answer: {0}")]
    Directory(String),
    #[error("{}", missing_table(.0))]
    UnknownType(String),
    #[error(
        "another worker has the table of the digest type {0}, and this one has not: restart this one with the same configuration"
    )]
    OtherWorker(String),
    /// An irreversible step waits until the workers agree.
    #[error(transparent)]
    Disagreement(#[from] WorkerDisagreement),
    #[error("cannot make the mail: {0}")]
    Render(String),
    /// A later attempt has begun, or the digest has ended. The workflow will call again.
    #[error("a later attempt has begun")]
    Fenced,
    /// The clock is ahead of Temporal's, or the process was frozen before it started.
    #[error(
        "the clock of this worker says {now:.0}, and Temporal's said {started:.0} a moment ago: synchronize the machine's clock"
    )]
    ClockAhead { now: Timestamp, started: Timestamp },
    #[error("cannot read the history of run {run}: {why}")]
    History { run: String, why: String },
    #[error("Temporal has no history of run {run} any more")]
    HistoryGone { run: String },
}

impl From<AgreementError> for StepError {
    fn from(error: AgreementError) -> Self {
        match error {
            AgreementError::Disagreement(disagreement) => disagreement.into(),
            AgreementError::Store(error) => error.into(),
        }
    }
}

/// Declares each kind of error: affected steps, description, its end before the commit, and the operator's
/// remedy.
macro_rules! kinds {
    ($($kind:ident = $steps:literal, $about:literal, $end:ident, $remedy:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ErrorKind {
            $($kind,)+
        }

        impl ErrorKind {
            pub const ALL: [Self; [$(stringify!($kind)),+].len()] = [$(Self::$kind),+];

            #[must_use]
            pub const fn end(self) -> ErrorEnd {
                match self {
                    $(Self::$kind => ErrorEnd::$end,)+
                }
            }

            /// Renders a row for `docs/operations.md`: error, steps, end and remedy.
            #[must_use]
            pub fn row(self) -> String {
                let (about, steps, remedy) = match self {
                    $(Self::$kind => ($about, $steps, $remedy),)+
                };
                format!("| {about} | {steps} | {} | {remedy} |", end_text(self.end()))
            }
        }
    };
}

kinds! {
    StoreAway = "each step that asks the database", "the database does not answer", Repeats, "as its row above says";
    StoreRefuses = "each step that asks the database", "the database refuses, or lacks a row or cannot read it", WaitsForOperator,
        "as its row above says";
    Archive = "retention", "the archive cannot be written", WaitsForOperator, "make room, or correct `retention.archive`";
    Directory = "plan, claim", "your own directory is away, and its last answer is missing or too old", Repeats, "start it";
    UnknownType = "plan, claim, render, send", "no table has the digest type", GivesUp, "add the table, and restart the workers";
    OtherWorker = "plan, claim, render, send", "another worker has the table of the digest type, and this one has not", AnotherWorker,
        "restart the worker with the same configuration";
    Disagreement = "retention", "the workers have other settings, keys or clocks", WaitsForOperator,
        "give all workers the same configuration and keys: `tidings stats` says who differs";
    Render = "render, send", "no template works, or a sender or a DKIM key is wrong", WaitsForOperator,
        "correct what the error names, and restart the workers";
    Fenced = "send", "another attempt was faster", Superseded, "nothing";
    ClockAhead = "plan, claim, render, send, delivery to a subscription, retention",
        "the worker's clock is more than a minute ahead of Temporal's", Repeats, "synchronize the clock";
    History = "stash", "Temporal does not answer with the history of an earlier run", Repeats, "nothing";
    HistoryGone = "stash", "Temporal has deleted the history of an earlier run", DeadLetter,
        "emit the events again if their producer has them";
}

const fn end_text(end: ErrorEnd) -> &'static str {
    match end {
        ErrorEnd::Repeats => "again after 1 s, 2 s, 4 s ... 1 min, until it passes",
        ErrorEnd::AnotherWorker => "again every 0.5 s, until a worker that can do it takes it",
        ErrorEnd::WaitsForOperator => "again after 1 s, 2 s, 4 s ... 1 h, until you act",
        ErrorEnd::GivesUp => "again after ever longer waits up to 1 h; after seven days the digest is `unknown`",
        ErrorEnd::DeadLetter => "a dead letter names the run; the key goes on without its events",
        ErrorEnd::KeepsOutcome => "the outcome is kept and recorded later",
        ErrorEnd::Superseded => "again at once, with the outcome of the other attempt",
    }
}

impl StepError {
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(tidings_store::StoreError::Unavailable(_)) => ErrorKind::StoreAway,
            Self::Store(tidings_store::StoreError::Broken(_)) => ErrorKind::StoreRefuses,
            Self::Store(tidings_store::StoreError::Archive(_)) => ErrorKind::Archive,
            Self::Directory(_) => ErrorKind::Directory,
            Self::UnknownType(_) => ErrorKind::UnknownType,
            Self::OtherWorker(_) => ErrorKind::OtherWorker,
            Self::Disagreement(_) => ErrorKind::Disagreement,
            Self::Render(_) => ErrorKind::Render,
            Self::Fenced => ErrorKind::Fenced,
            Self::ClockAhead { .. } => ErrorKind::ClockAhead,
            Self::History { .. } => ErrorKind::History,
            Self::HistoryGone { .. } => ErrorKind::HistoryGone,
        }
    }

    #[must_use]
    pub const fn end(&self, moment: FailurePhase) -> ErrorEnd {
        match self {
            Self::Store(error) => error.error_end(moment),
            other => other.kind().end(),
        }
    }
}

/// Converts a step's result for Temporal. It retries transient errors at least once a minute. The workflow
/// shows errors which need a person, backs off, and continues on a command.
///
/// # Errors
/// The step's error.
pub fn activity_result<T>(result: Result<T, StepError>) -> Result<T, ActivityError> {
    result.map_err(|error| ActivityError::application(application_failure(error)))
}

fn application_failure(error: StepError) -> ApplicationFailure {
    match error.kind().end() {
        ErrorEnd::WaitsForOperator | ErrorEnd::GivesUp => ApplicationFailure::non_retryable(error),
        ErrorEnd::AnotherWorker => ApplicationFailure::builder(error).next_retry_delay(NEXT_WORKER).build(),
        ErrorEnd::Repeats | ErrorEnd::DeadLetter | ErrorEnd::KeepsOutcome | ErrorEnd::Superseded => {
            ApplicationFailure::new(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// An error of the kind. A kind without one does not compile.
    fn sample(kind: ErrorKind) -> Option<StepError> {
        let text = || "x".to_owned();
        Some(match kind {
            ErrorKind::StoreAway => StepError::Store(sqlx::Error::PoolTimedOut.into()),
            ErrorKind::StoreRefuses => StepError::Store(tidings_store::StoreError::Broken(text())),
            // Only a disk makes one: `tests/it/store/retention_alerts.rs` has it.
            ErrorKind::Archive => return None,
            ErrorKind::Directory => StepError::Directory(text()),
            ErrorKind::UnknownType => StepError::UnknownType(text()),
            ErrorKind::OtherWorker => StepError::OtherWorker(text()),
            ErrorKind::Disagreement => StepError::Disagreement(WorkerDisagreement(text())),
            ErrorKind::Render => StepError::Render(text()),
            ErrorKind::Fenced => StepError::Fenced,
            ErrorKind::ClockAhead => StepError::ClockAhead { now: Timestamp::MAX, started: Timestamp::UNIX_EPOCH },
            ErrorKind::History => StepError::History { run: text(), why: text() },
            ErrorKind::HistoryGone => StepError::HistoryGone { run: text() },
        })
    }

    #[test]
    fn each_error_has_an_end_and_temporal_repeats_only_what_passes_by_itself() {
        for kind in ErrorKind::ALL {
            let Some(error) = sample(kind) else { continue };
            assert_eq!((error.kind(), error.end(FailurePhase::BeforeDot)), (kind, kind.end()));
            let waits = matches!(kind.end(), ErrorEnd::WaitsForOperator | ErrorEnd::GivesUp);
            let words = error.to_string();
            let failure = application_failure(error);
            assert_eq!((failure.is_non_retryable(), failure.to_string()), (waits, words), "{kind:?}");
            assert_eq!(failure.next_retry_delay().is_some(), kind == ErrorKind::OtherWorker, "{kind:?}");
        }
    }

    #[test]
    fn past_the_dot_the_outcome_is_kept_whatever_the_store_says() {
        for kind in [ErrorKind::StoreAway, ErrorKind::StoreRefuses] {
            assert_eq!(sample(kind).map(|error| error.end(FailurePhase::PastDot)), Some(ErrorEnd::KeepsOutcome));
        }
    }

    #[test]
    fn the_documentation_has_the_table() {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md")).unwrap();
        for kind in ErrorKind::ALL {
            assert!(page.contains(&kind.row()), "docs/operations.md: {}", kind.row());
        }
        let rows = page.lines().skip_while(|line| !line.starts_with("| error | steps |")).skip(2);
        assert_eq!(rows.take_while(|line| line.starts_with('|')).count(), ErrorKind::ALL.len());
    }
}
