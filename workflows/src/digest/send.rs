//! Step `send`: one attempt to deliver the message of a digest.

use std::time::Duration;

use jiff::Timestamp;
use tidings_model::{
    settings::RETRY_DELAYS,
    step::{SendInput, Sent, TooLarge},
    window::Wait,
};

use super::state::State;
use crate::driver::after;

/// The input, if a digest is being delivered.
pub(super) fn begin(state: &mut State, asked_at: Timestamp) -> Option<SendInput> {
    let digest = state.delivering.as_mut()?;
    if state.hold.is_some() {
        digest.note_wait(Wait::Hold);
    }
    (digest.signalled, digest.flushed) = (false, false);
    digest.end_undo();
    Some(SendInput {
        asked_at,
        window: digest.window.clone(),
        failed: digest.attempts,
        shortens: digest.too_large.is_none(),
        opens_returned: true,
        keeps_ends: true,
        unrecorded: digest.unrecorded.clone(),
        after: Some(digest.wait),
    })
}

/// Ends the digest, or sets the time of the next attempt.
pub(super) fn apply(state: &mut State, _: &SendInput, answer: Sent, now: Timestamp) {
    // What has left for the ledger is not compared any more.
    let is_urgent = state.open.as_ref().is_some_and(|open| open.urgent_at.is_some());
    let Some(digest) = &mut state.delivering else { return };
    digest.unrecorded = None;
    digest.waits = matches!(answer, Sent::Waiting { pause: None, too_large: None, moment: false, .. });
    match answer {
        Sent::Closed { closed, returned } => {
            state.end_delivery(closed);
            state.note_returned(returned);
        }
        Sent::Deferred { why, again_in } => {
            let delay = again_in.unwrap_or_else(|| default_delay(digest.attempts));
            digest.attempts += 1;
            digest.not_before = Some(after(now, delay));
            digest.moment = None;
            digest.note_wait(if is_urgent { Wait::Urgent } else { Wait::Retry });
            digest.why = why;
            digest.pause = None;
            if digest.flushed {
                digest.hurry();
            }
        }
        Sent::Waiting { until, why, moment: true, .. } => {
            if is_urgent {
                digest.note_wait(Wait::Urgent);
            }
            digest.moment = Some(until);
            digest.why = why;
            digest.pause = None;
            // The attempt may have asked the store before the recipient's pause ended.
            if digest.signalled {
                digest.look_again(now);
            }
        }
        Sent::Waiting { until, why, pause, too_large, moment: false } => {
            if let Some(attempt) = too_large {
                digest.rendered = false;
                digest.too_large = Some(TooLarge { attempt, why: why.clone() });
            }
            digest.not_before = Some(until);
            digest.note_wait(if pause.is_some() { Wait::PauseOfOperator } else { Wait::Breaker });
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
