//! Step claim (`load` on the wire): the window is due. Its events become a digest, or admission says why not yet.

use jiff::Timestamp;
use tidings_model::{
    step::{ClaimAnswer, ClaimInput, Ending},
    window::Wait,
};

use super::{
    deadline::{moved_due_at, planned, undo},
    delivering::Delivering,
    requests::Preferences,
    state::{State, count},
};

/// The input, if a planned window is open.
pub(super) fn input(state: &State, asked_at: Timestamp) -> Option<ClaimInput> {
    let open = state.open.as_ref()?;
    let plan = open.plan.as_ref()?;
    let count = state.pending.page_len(event_limit(state).unwrap_or(usize::MAX));
    Some(ClaimInput {
        asked_at,
        window: open.window.clone(),
        events: state.pending.head(count),
        flushed: state.flushed,
        urgent: plan.urgent,
        revision: plan.revision,
        planned: planned(state),
        due_at: Some(moved_due_at(state, plan)).filter(|at| *at != open.window.due_at),
        limits: plan.limits,
        undo: undo(state, plan),
        released: open.released,
        limit_ended_at: open.limit_ends_at,
        unknown_since: open.unknown_since,
    })
}

/// Starts the delivery, defers the window, or ends it.
pub(super) fn apply(state: &mut State, asked: &ClaimInput, answer: ClaimAnswer, _: Timestamp) {
    // Events that a claim of an ended window did not take belong to the next window.
    let left = |ending: &Ending| count(ending.taken) < asked.events.len();
    state.flushed &= match &answer {
        ClaimAnswer::Nothing(ending) => left(ending),
        // A flush that came while the claim was asked is still to be carried out.
        // A flush outlasts a pause.
        ClaimAnswer::Later { pause: Some(_), .. } => true,
        ClaimAnswer::Later { .. } | ClaimAnswer::Changed => !asked.flushed,
        ClaimAnswer::Claimed { .. } => false,
    };
    match answer {
        ClaimAnswer::Later { until, why, pause, limit_ends_at, unknown_since } => {
            let Some(open) = &mut state.open else { return };
            open.note_deferral(&why);
            open.unknown_since = unknown_since;
            if pause.is_none() {
                open.not_before = Some(until);
                open.why = why;
                // Not the hour puts it off, and what does ends at a good moment.
                open.released = false;
                open.limit_ends_at = open.limit_ends_at.max(limit_ends_at);
            }
            if let Some(plan) = &mut open.plan {
                plan.pause = pause;
            }
        }
        ClaimAnswer::Changed => state.preferences = Preferences::Changed,
        ClaimAnswer::Claimed { items, groups, taken, rendered } => {
            state.close_window(&asked.events, taken);
            // An urgent event that came during the claim would wait behind the digest.
            let is_urgent = state.pending.urgent_at(usize::MAX).is_some();
            let wait = if is_urgent { Wait::Urgent } else { asked.wait() };
            let digest = Delivering::new(asked.due_window(), items, groups);
            state.delivering = Some(Delivering { stored: rendered, undo: asked.undo, wait, ..digest });
        }
        ClaimAnswer::Nothing(Ending { closed, taken, .. }) => {
            state.close_window(&asked.events, taken);
            state.end(asked.window.digest_id, closed);
        }
    }
}

/// The largest number of events that the open window takes while none of them is stashed.
pub(super) fn event_limit(state: &State) -> Option<usize> {
    // A flush takes all pending events.
    let open = state.open.as_ref().filter(|open| open.stashed == 0 && open.runs.is_empty() && !state.flushed)?;
    open.plan.as_ref()?.max_events.and_then(|most| usize::try_from(most).ok())
}
