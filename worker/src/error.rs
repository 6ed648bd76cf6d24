//! The kinds of failure that a command reports through its exit code.

use std::process::ExitCode;

use crate::{config, phrases::counted};

/// A command that was used in a way that cannot work, with a message that says what would.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Digests are later, or runs in trouble for longer, than the caller of a check accepts.
#[derive(Debug, thiserror::Error)]
#[error(
    "the oldest overdue digest, or run in trouble, has waited for {age}, more than the {accepted} of --overdue-after"
)]
pub struct Overdue {
    pub age: String,
    pub accepted: String,
}

/// Runs in trouble that wait for a person.
#[derive(Debug, thiserror::Error)]
#[error("{} in trouble: see `tidings runs list`", counted(*.0, "run"))]
pub struct RunsInTrouble(pub u64);

/// The error with its causes, without those that the text has already: the SDK's errors repeat their causes.
#[must_use]
pub fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// A failure after which a mail server keeps the message and tries again: exit code 75, `EX_TEMPFAIL` of sysexits.h.
#[derive(Debug, thiserror::Error)]
#[error("{}", in_words(.0))]
pub struct TryLater(pub anyhow::Error);

/// The exit code for the error: 75 for [`TryLater`], 2 if the caller must change the command or the configuration, 3 for
/// [`Overdue`] and [`RunsInTrouble`], otherwise 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<TryLater>() {
        return ExitCode::from(75);
    }
    let callers = error.chain().any(|cause| cause.is::<config::Error>() || cause.is::<Usage>());
    let late = error.is::<Overdue>() || error.is::<RunsInTrouble>();
    ExitCode::from(if callers {
        2
    } else if late {
        3
    } else {
        1
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        for (error, expected) in [
            (anyhow!("gone"), "gone"),
            (anyhow!("gone").context("cannot count"), "cannot count: gone"),
            (
                anyhow!("gone").context("server error: gone").context("cannot count: server error: gone"),
                "cannot count: server error: gone",
            ),
            (anyhow!("refused").context("server error").context("cannot count"), "cannot count: server error: refused"),
        ] {
            assert_eq!(in_words(&error), expected);
        }
    }
}
