//! Errors that a command reports through its exit code.

use std::process::ExitCode;

use crate::{config, phrases::format_count};

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

#[derive(Debug, thiserror::Error)]
#[error(
    "the oldest overdue digest, or run in trouble, has waited for {age}, more than the {accepted} of --overdue-after"
)]
pub struct OverdueError {
    pub age: String,
    pub accepted: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{} in trouble: see `tidings runs list`", format_count(*.0, "run"))]
pub struct RunsInTrouble(pub u64);

/// Formats the error with its causes. Skips a cause already in the text, because SDK errors repeat theirs.
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

/// A mail server should keep the message and retry: exit code 75, `EX_TEMPFAIL` in sysexits.h.
#[derive(Debug, thiserror::Error)]
#[error("{}", in_words(.0))]
pub struct TemporaryFailure(pub anyhow::Error);

/// Returns 75 for [`TemporaryFailure`], 2 if the caller must change the command or the configuration, 3 for
/// [`OverdueError`] and [`RunsInTrouble`], otherwise 1.
#[must_use]
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.is::<TemporaryFailure>() {
        return ExitCode::from(75);
    }
    let callers = error.chain().any(|cause| cause.is::<config::ConfigError>() || cause.is::<UsageError>());
    let late = error.is::<OverdueError>() || error.is::<RunsInTrouble>();
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
