//! The metrics of a digest's steps, from the step's input and answer. A repeated step counts again.

use jiff::Timestamp;
use tidings_model::{
    Key,
    settings::Settings,
    step::{ClaimAnswer, ClaimInput, Ending, Sent},
    window::{Closed, Outcome, Window},
};
use tidings_services::metrics;

/// Counts the answer of a claim.
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

/// Counts the answer of an attempt. `window` is that of the claim.
pub(super) fn sent(settings: &Settings, window: &Window, answer: &Sent, now: Timestamp) {
    let Sent::Closed { closed, .. } = answer else { return };
    if closed.outcome == Outcome::Sent {
        metrics::accepted(settings, &window.key.digest_type, now.duration_since(window.due_at));
    }
    ended(settings, &window.key, closed);
}

/// Counts an end that took events to the ledger.
pub(super) fn ended_with_events(settings: &Settings, key: &Key, Ending { closed, taken, .. }: &Ending) {
    metrics::events(settings, &key.digest_type, *taken);
    ended(settings, key, closed);
}

/// Counts an end.
pub(super) fn ended(settings: &Settings, key: &Key, closed: &Closed) {
    metrics::digest(settings, &key.digest_type, closed.outcome);
}
