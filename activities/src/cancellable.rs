//! The answer of a step that Temporal may cancel.

use temporalio_sdk::activities::ActivityError;

/// An answer, or nothing because of a cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancellable<T> {
    /// The step is done.
    Done(T),
    /// Temporal cancelled the step, and the step had no effect.
    Cancelled,
}

impl<T> Cancellable<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Cancellable<U> {
        match self {
            Self::Done(answer) => Cancellable::Done(change(answer)),
            Self::Cancelled => Cancellable::Cancelled,
        }
    }

    /// The answer of an activity.
    pub(crate) fn into_activity(self) -> Result<T, ActivityError> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Cancelled => Err(ActivityError::cancelled()),
        }
    }
}
