//! Records metrics for a digest's steps, from each step's input and result. A repeated step counts again.

use jiff::Timestamp;
use tidings_model::{
    Key,
    settings::Settings,
    step::{ClaimAnswer, ClaimInput, Ending, Sent},
    window::{Closed, Outcome, Window},
};
use tidings_services::metrics;

pub(super) fn claimed(settings: &Settings, input: &ClaimInput, answer: &ClaimAnswer, now: Timestamp) {
    let key = &input.window.key;
    match answer {
        ClaimAnswer::Claimed { taken, .. } => {
            metrics::claimed(settings, &key.digest_type, now.duration_since(input.due_at()));
            metrics::events(settings, &key.digest_type, *taken);
        }
        ClaimAnswer::Nothing(ending) => ended_with_events(settings, key, ending),
        ClaimAnswer::Later { .. } | ClaimAnswer::Changed => {}
    }
}

/// Counts an attempt's result. `window` should be the claimed one.
pub(super) fn sent(settings: &Settings, window: &Window, answer: &Sent, now: Timestamp) {
    let Sent::Closed { closed, .. } = answer else { return };
    if closed.outcome == Outcome::Sent {
        metrics::accepted(settings, &window.key.digest_type, now.duration_since(window.due_at));
    }
    ended(settings, &window.key, closed);
}

pub(super) fn ended_with_events(settings: &Settings, key: &Key, Ending { closed, taken, .. }: &Ending) {
    metrics::events(settings, &key.digest_type, *taken);
    ended(settings, key, closed);
}

pub(super) fn ended(settings: &Settings, key: &Key, closed: &Closed) {
    metrics::digest(settings, &key.digest_type, closed.outcome);
}
