//! Step `stash`: writes a page of the pending events to the ledger, so that the workflow's state stays small.

use jiff::Timestamp;
use tidings_model::step::{StashInput, Stashed};

use super::state::{Repetitions, State, count};

/// The input. Opens the window if none is open.
pub(super) fn begin(state: &mut State, asked_at: Timestamp) -> Option<StashInput> {
    state.ensure_open(asked_at);
    let open = state.open.as_ref()?;
    let window = open.window.clone();
    let delivering = state.delivering_id();
    let counts_new = state.repetitions != Repetitions::Counted;
    if let Some(run) = open.runs.first() {
        let (events, runs) = (Vec::new(), vec![run.clone()]);
        return Some(StashInput { window, events, runs, delivering, opens_returned: true, counts_new });
    }
    let events = state.pending.head(state.pending.page_len(state.doomed()));
    Some(StashInput { window, events, runs: Vec::new(), delivering, opens_returned: true, counts_new })
}

/// Removes the stored events from the state.
pub(super) fn apply(state: &mut State, done: &StashInput, answer: Stashed, _: Timestamp) {
    let Stashed { taken, returned, events } = answer;
    state.note_leaving(count(taken));
    state.drop_taken(&done.events, taken);
    if let Some(open) = &mut state.open {
        open.stashed += taken;
        open.late = returned.or(open.late.take());
        open.closed_to_events |= count(taken) < done.events.len();
        open.runs.retain(|run| !done.runs.contains(run));
        if open.runs.is_empty() {
            open.stashed += std::mem::take(&mut open.unread);
        }
        open.stashed = events.unwrap_or(open.stashed);
    }
}
