//! The time at which the open window is due, and its reason: for the decision, the status and the commands.

use std::time::Duration;

use jiff::Timestamp;
use tidings_model::{
    rules::deadline::Deadline,
    step::Plan,
    window::{Planned, THEN},
    words,
};

use super::state::State;

/// The time at which the open window goes out if nothing more arrives, as far as pauses and limits are known. `None` while the
/// window is not planned.
pub(super) fn deadline(state: &State) -> Option<Timestamp> {
    let plan = state.open.as_ref()?.plan.as_ref()?;
    Some(foreseen(state, plan, String::new()).at)
}

/// The reason for [`deadline`], in words.
pub(super) fn why(state: &State) -> String {
    let why = why_due(state);
    let Some(plan) = state.open.as_ref().and_then(|open| open.plan.as_ref()) else { return why };
    let why = foreseen(state, plan, why).why;
    match undoable(state, plan) {
        Some(step) => why + THEN + &step,
        None => why,
    }
}

/// The time for which the message of the open window can be taken back. What is flushed or urgent goes out at once.
pub(super) fn undo(state: &State, plan: &Plan) -> Option<Duration> {
    plan.undo.filter(|_| !state.flushed && !plan.urgent)
}

/// The step after the claim in which the message can be taken back.
fn undoable(state: &State, plan: &Plan) -> Option<String> {
    let undo = undo(state, plan)?;
    Some(format!("waits {}, in which tidings digest drop takes it back", words::written(undo)))
}

/// The due time, moved by pauses and by the limits that were exhausted at the plan. A flush goes past the limits.
fn foreseen(state: &State, plan: &Plan, why: String) -> Deadline {
    let due_at = moved_due_at(state, plan);
    let at = pause_ends_at(plan).map_or(due_at, |at| at.max(resumes_at(state, plan).unwrap_or(at)).max(due_at));
    let limited = if state.flushed { &[][..] } else { &plan.limited };
    Deadline { at, why }.under(limited)
}

/// The end of the pauses that are known, where each has one.
fn pause_ends_at(plan: &Plan) -> Option<Timestamp> {
    plan.paused_until.max(plan.pause.as_ref().and_then(|pause| pause.paused.until))
}

/// The next good moment after a pause in which the window is due. What is flushed or urgent goes out when the pause ends.
fn resumes_at(state: &State, plan: &Plan) -> Option<Timestamp> {
    let at_once = state.flushed || plan.urgent;
    plan.resumes_at.filter(|_| !at_once && pause_ends_at(plan) > Some(moved_due_at(state, plan)))
}

/// The reason for the time at which the open window asks for admission.
fn why_due(state: &State) -> String {
    let Some(open) = &state.open else { return String::new() };
    let Some(plan) = &open.plan else { return open.why.clone() };
    let slid = slid(state, plan).zip(plan.slide);
    let why = slid.map_or_else(
        || open.why.clone(),
        |(at, slide)| format!("{} after the latest event -> {at:.0}", words::written(slide.by)),
    );
    match plan.paused_until.filter(|until| *until > due_at(state, plan)) {
        Some(until) => match resumes_at(state, plan) {
            Some(at) => format!("{why}; paused until {until:.0}; next good moment -> {at:.0}"),
            None => format!("{why}; paused until {until:.0}"),
        },
        None => why,
    }
}

/// The open window's plan in words for the ledger, with what moved the time since. `None` while the window is not planned.
pub(super) fn planned(state: &State) -> Option<Planned> {
    let open = state.open.as_ref()?;
    let plan = open.plan.as_ref()?;
    let full = plan.max_events.filter(|most| state.counted() >= u64::from(*most));
    let full = full.map(|most| format!("full with {most} event{}", if most == 1 { "" } else { "s" }));
    let flushed = if state.flushed { "an operator flushed it" } else { "" };
    let why = why_due(state);
    let undo = undoable(state, plan);
    let last = [why.as_str(), full.as_deref().unwrap_or_default(), flushed, undo.as_deref().unwrap_or_default()];
    let later: Vec<&str> = open.deferrals.iter().map(String::as_str).chain(last).collect();
    Some(Planned::new(plan, &later))
}

/// The planned time, or the later one that admission gave.
pub(super) fn due_at(state: &State, plan: &Plan) -> Timestamp {
    let not_before = state.open.as_ref().and_then(|open| open.not_before);
    not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
}

/// The planned time, moved by later events and by admission, and not by a pause.
pub(super) fn moved_due_at(state: &State, plan: &Plan) -> Timestamp {
    slid(state, plan).unwrap_or_else(|| due_at(state, plan))
}

/// The later time to which events since the plan move a sliding deadline.
fn slid(state: &State, plan: &Plan) -> Option<Timestamp> {
    let at = plan.slide?.due_at(state.pending.last()?.at);
    Some(at).filter(|at| *at > due_at(state, plan))
}

/// A moved deadline in the words of the audit trail.
pub(super) fn moved(to: Timestamp, from: Timestamp) -> String {
    format!("due at {to:.0}, was {from:.0}")
}
