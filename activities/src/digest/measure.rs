//! Metrics for a digest's steps, from each step's input and result. A repeated step counts again.

use jiff::Timestamp;
use tidings_model::{
    Key,
    settings::Settings,
    step::{ClaimAnswer, ClaimInput, CloseAnswer, SendAnswer},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_services::metrics;

pub(super) fn count_claim(settings: &Settings, input: &ClaimInput, answer: &ClaimAnswer, now: Timestamp) {
    let key = &input.window.key;
    match answer {
        ClaimAnswer::Claimed { taken, .. } => {
            metrics::observe_claim(settings, &key.digest_type, now.duration_since(input.due_at()));
            metrics::count_events(settings, &key.digest_type, *taken);
        }
        ClaimAnswer::Nothing(ending) => ended_with_events(settings, key, ending),
        ClaimAnswer::Later { .. } | ClaimAnswer::Changed => {}
    }
}

/// `window` should be the claimed one.
pub(super) fn count_attempt(settings: &Settings, window: &Window, answer: &SendAnswer, now: Timestamp) {
    let SendAnswer::Closed { closed, .. } = answer else { return };
    if closed.outcome == DigestOutcome::Sent {
        metrics::observe_accepted(settings, &window.key.digest_type, now.duration_since(window.due_at));
    }
    count_end(settings, &window.key, closed);
}

pub(super) fn ended_with_events(settings: &Settings, key: &Key, CloseAnswer { closed, taken, .. }: &CloseAnswer) {
    metrics::count_events(settings, &key.digest_type, *taken);
    count_end(settings, key, closed);
}

pub(super) fn count_end(settings: &Settings, key: &Key, closed: &WindowEnd) {
    metrics::count_digest(settings, &key.digest_type, closed.outcome);
}
