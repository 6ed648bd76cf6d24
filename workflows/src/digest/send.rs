//! Step `send`: one attempt to deliver the message of a digest.

use std::time::Duration;

use jiff::Timestamp;
use tidings_model::{
    settings::RETRY_DELAYS,
    step::{SendInput, Sent, TooLarge},
};

use super::state::State;
use crate::driver::after;

/// The input, if a digest is being delivered.
pub(super) fn begin(state: &mut State, asked_at: Timestamp) -> Option<SendInput> {
    let digest = state.delivering.as_mut()?;
    digest.signalled = false;
    digest.end_undo();
    Some(SendInput {
        asked_at,
        window: digest.window.clone(),
        failed: digest.attempts,
        shortens: digest.too_large.is_none(),
        opens_returned: true,
        keeps_ends: true,
        unrecorded: digest.unrecorded.clone(),
    })
}

/// Ends the digest, or sets the time of the next attempt.
pub(super) fn apply(state: &mut State, _: &SendInput, answer: Sent, now: Timestamp) {
    let Some(digest) = &mut state.delivering else { return };
    digest.unrecorded = None;
    match answer {
        Sent::Closed { closed, returned } => {
            state.end_delivery(closed);
            state.note_returned(returned);
        }
        Sent::Deferred { why, again_in } => {
            let delay = again_in.unwrap_or_else(|| default_delay(digest.attempts));
            digest.attempts += 1;
            digest.not_before = Some(after(now, delay));
            digest.why = why;
            digest.pause = None;
        }
        Sent::Waiting { until, why, pause, too_large } => {
            if let Some(attempt) = too_large {
                digest.rendered = false;
                digest.too_large = Some(TooLarge { attempt, why: why.clone() });
            }
            digest.not_before = Some(until);
            digest.why = why;
            digest.pause = pause;
            // The attempt may have asked the store before the pause ended.
            if digest.signalled {
                digest.look_again(now);
            }
        }
        Sent::Unrecorded(end) => {
            digest.why = end.why();
            digest.unrecorded = Some(end);
        }
    }
}

/// The wait after the failed attempt number `attempts + 1`.
fn default_delay(attempts: u32) -> Duration {
    let nth = usize::try_from(attempts).unwrap_or(usize::MAX);
    RETRY_DELAYS[nth.min(RETRY_DELAYS.len() - 1)]
}
