//! The failures of activities.

use tidings_store::{ErrorEnd, Moment};

/// The reason why an activity has no answer. Temporal retries the activity after every one of them.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    /// The team's own directory does not answer, and its last answer about the person is missing or too old.
    #[error("the team's own directory of recipients does not answer: {0}")]
    Directory(String),
    /// The worker's configuration lacks the digest type of the events.
    #[error("digest type {0:?} is not configured: add [digest.{0}] to tidings.toml and restart the worker")]
    UnknownType(String),
    /// Neither the digest type's template nor the template `default` works, or the sender's address is invalid.
    #[error("cannot make the mail: {0}")]
    Render(String),
    /// A later attempt has begun, or the digest has ended. The workflow asks again.
    #[error("a later attempt has begun")]
    Fenced,
    /// The signals of an earlier run cannot be read.
    #[error("cannot read the history of run {run}: {why}")]
    History { run: String, why: String },
    /// The history was deleted, by an operator or after the namespace's retention.
    #[error("Temporal has no history of run {run} any more")]
    HistoryGone { run: String },
}

impl Error {
    /// What becomes of the work that this error stops. Each error has an end, or this does not compile.
    #[must_use]
    pub const fn end(&self, moment: Moment) -> ErrorEnd {
        match self {
            Self::Store(error) => error.end(moment),
            Self::Directory(_) | Self::History { .. } => ErrorEnd::Repeats,
            Self::UnknownType(_) | Self::Render(_) | Self::HistoryGone { .. } => ErrorEnd::WaitsForOperator,
            Self::Fenced => ErrorEnd::Superseded,
        }
    }
}
