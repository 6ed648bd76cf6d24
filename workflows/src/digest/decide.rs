//! The next step of the digest workflow, and the time at which the open window is due: pure functions of the state and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    rules::deadline::Deadline,
    step::{Joined, Plan},
    window::{Planned, THEN},
    words,
};

use super::{
    requests::{Preferences, Reopening},
    state::{Open, Repetitions, State, Unused},
};

/// The time for which a run that got nothing new waits for more. A producer that repeats events, or misspells its signals, at full
/// speed would otherwise start a run for every few of them, at a fifth of the rate that one run takes, and Temporal refuses signals
/// to a run that is ending.
const AFTER_NOTHING_NEW: Duration = Duration::from_secs(5);

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing until this time, or until something arrives.
    Wait(Timestamp),
    Plan,
    /// Only events that the ledger may know fill the window: a plan compares them.
    Compare,
    /// Urgent events came while the digest in delivery waits for a better hour: a plan compares them with the ledger.
    CompareUrgent,
    Stash,
    Claim,
    Render,
    /// The relay found the message too large: make it shorter.
    Shorten,
    Send,
    /// After a cancel or a drop: the ledger records the end of a delivery or a window.
    Close,
    /// The ledger records which events are withdrawn.
    Retract,
    Reopen,
    /// The store records dead letters.
    DeadLetters,
    /// The audit trail records commands.
    Audit,
    /// Nothing is pending and nothing undelivered.
    Finish,
}

/// Ends commands that have nothing left to act on. Runs before each [`decide`].
pub(super) fn clear_finished_commands(state: &mut State, now: Timestamp) {
    let idle = state.delivering.is_none() && state.open.is_none() && state.waiting() == 0;
    state.idle_since = state.idle_since.or(Some(now)).filter(|_| idle);
    if state.open.is_none() || state.cancelled {
        state.retiming = None;
        state.preferences = Preferences::Current;
    }
    let dropped = state.drop.as_ref().is_some_and(|drop| drop.events == 0);
    if idle || (dropped && state.delivering.is_none() && state.open.is_none() && state.returned.is_none()) {
        state.drop = None;
    }
    if idle {
        state.hold = None;
        state.flushed = false;
    }
}

/// Chooses the next step.
///
/// A replay decides again, and its clock may be ahead: temporalio-sdk 1.1.1 merges workflow tasks that ended without a
/// command with the next task, and uses the time of the last one. So each decision that does not wait must be the same at
/// any later time, and the decisions that depend on the time come last. The fault is gone when a replay of a task without
/// a command sees the time of that task.
pub(super) fn decide(state: &State, now: Timestamp) -> Decision {
    if state.delivering.as_ref().is_some_and(|digest| digest.unrecorded.is_some()) {
        // Before a cancel or a drop as well: the ledger must know what became of the attempt.
        return Decision::Send;
    }
    if state.winds_down() {
        return wind_down(state);
    }
    if let Some(chore) = chore(state) {
        return chore;
    }
    if let Some(until) = state.held_until(now) {
        return Decision::Wait(until);
    }
    match (&state.delivering, &state.open) {
        (Some(digest), _) if !digest.rendered && digest.too_large.is_some() => Decision::Shorten,
        (Some(digest), _) if !digest.rendered => Decision::Render,
        (Some(digest), _) => digest.waits_until(now).map_or(Decision::Send, Decision::Wait),
        (None, Some(Open { plan: Some(plan), .. })) if !is_due(state, plan, now) => {
            Decision::Wait(wait_until(state, plan))
        }
        // Planned again at the deadline and not with each event: an event that the ledger knows moves nothing.
        (None, Some(_)) if has_slid(state) && !state.flushed => Decision::Plan,
        (None, Some(open)) if must_compare(state, open) => Decision::Compare,
        (None, Some(_)) => Decision::Claim,
        (None, None) => idle(state, now),
    }
}

/// A step that is due at any time, also on hold: the window is planned so that its deadline is visible, and the state is
/// kept small.
fn chore(state: &State) -> Option<Decision> {
    if !state.dead_letters.is_empty() {
        Some(Decision::DeadLetters)
    } else if !state.audit_notes.is_empty() {
        Some(Decision::Audit)
    } else if !state.retracts.is_empty() {
        // Before any claim: a claim leaves out the events that the ledger knows to be withdrawn.
        Some(Decision::Retract)
    } else if state.delivering.is_none() && Reopening::is_asked(state.reopen.as_ref()) {
        Some(Decision::Reopen)
    } else if state.delivering.is_none() && must_plan(state) {
        Some(Decision::Plan)
    } else if state.compares_urgent() {
        Some(Decision::CompareUrgent)
    } else if must_stash(state) && !is_full(state) {
        Some(Decision::Stash)
    } else {
        None
    }
}

/// The step after a cancel or a drop: everything ends without a message.
fn wind_down(state: &State) -> Decision {
    let doomed = state.doomed() > 0 && !state.pending.is_empty();
    if state.delivering.is_some() {
        Decision::Close
    } else if Reopening::is_asked(state.reopen.as_ref()) {
        // The ledger may have resumed the digest already, which then needs another end.
        Decision::Reopen
    } else if must_stash(state) && (doomed || state.open.as_ref().is_some_and(|open| !open.runs.is_empty())) {
        Decision::Stash
    } else if state.open.is_some() || state.returned.is_some() || doomed {
        Decision::Close
    } else {
        chore(state).unwrap_or(Decision::Finish)
    }
}

/// The step of a run that has nothing to do: it waits for the next event as long as configured, and a while if it got nothing new.
fn idle(state: &State, now: Timestamp) -> Decision {
    let nothing_new = state.repetitions == Repetitions::NothingElse || waits_unused(state);
    let linger = state.linger.max(nothing_new.then_some(AFTER_NOTHING_NEW));
    let linger = linger.and_then(|linger| SignedDuration::try_from(linger).ok());
    let until = state.idle_since.zip(linger).and_then(|(since, linger)| since.checked_add(linger).ok());
    until.filter(|until| *until > now).map_or(Decision::Finish, Decision::Wait)
}

/// Reports a decision about repeated events that earlier versions did not make, or whose step they did not ask as much.
pub(super) fn treats_repetitions(state: &State, decision: Decision) -> bool {
    match decision {
        Decision::Wait(_) => state.idle_since.is_some() && state.repetitions == Repetitions::NothingElse,
        Decision::Compare | Decision::Stash => state.repetitions != Repetitions::Counted,
        _ => false,
    }
}

/// Reports a wait for a first event. Earlier versions did not wait.
pub(super) fn waits_for_first(state: &State, decision: Decision) -> bool {
    matches!(decision, Decision::Wait(_)) && state.idle_since.is_some() && waits_unused(state)
}

/// Reports that no digest came of the key so far, as when nothing that came could be read, and that the run waits for one.
fn waits_unused(state: &State) -> bool {
    state.summary.digests == 0 && state.unused == Unused::Waits
}

/// Reports a wait in which the message can be taken back. Earlier versions did not wait.
pub(super) fn waits_for_undo(state: &State, decision: Decision) -> bool {
    let digest = state.delivering.as_ref();
    matches!(decision, Decision::Wait(_)) && digest.is_some_and(|digest| digest.undo_until.is_some())
}

fn must_plan(state: &State) -> bool {
    let Some(open) = &state.open else { return state.waiting() > 0 };
    let Some(seen) = open.planned_from.as_ref().filter(|_| open.plan.is_some()) else { return true };
    let came = open.urgent_at.or_else(|| state.pending.urgent_at(usize::MAX));
    let urgent = seen.urgent_at.is_none() && came.is_some();
    state.preferences != Preferences::Current
        || state.retiming.is_some()
        || urgent
        || joined(state).is_some()
        || (has_slid(state) && must_stash(state))
}

/// The kind of events that joined the open window since its plan, which knew only the other kind.
pub(super) fn joined(state: &State) -> Option<Joined> {
    let seen = state.open.as_ref().filter(|open| open.plan.is_some())?.planned_from.as_ref()?;
    let returned_at = state.returned.as_ref().map(|returned| returned.at);
    if seen.only_returned && state.collected() > 0 {
        Some(Joined::Own)
    } else if returned_at.is_some() && seen.returned_at != returned_at {
        Some(Joined::Returned)
    } else {
        None
    }
}

/// Reports an event since the plan that moves a sliding deadline, unless the ledger knows the event.
fn has_slid(state: &State) -> bool {
    let Some(open) = &state.open else { return false };
    let last_at = state.pending.last().map(|last| last.at).or(open.stashed_at);
    let slide = state.plan().and_then(|plan| plan.slide);
    slide.is_some() && last_at.is_some() && last_at != open.planned_from.as_ref().map(|seen| seen.last_at)
}

fn must_stash(state: &State) -> bool {
    let open = state.open.as_ref();
    let takes_more = open.is_none_or(|open| !open.closed_to_events);
    (takes_more && state.pending.overflows()) || open.is_some_and(|open| !open.runs.is_empty())
}

/// Reports that the window may be full, and is not with the events that are surely new (rule 3). The time is no part of the
/// answer: [`decide`] says why.
fn must_compare(state: &State, open: &Open) -> bool {
    let Some(most) = open.plan.as_ref().and_then(|plan| plan.max_events).map(u64::from) else { return false };
    !state.flushed && state.collected() >= most && state.counted() < most
}

/// A full window claims its first events only; every other claim needs each event in the ledger or in its input.
fn is_full(state: &State) -> bool {
    event_limit(state).is_some_and(|most| state.pending.len() >= most)
}

/// The time at which the window is due, or at which a due window asks again if the pause is over.
fn wait_until(state: &State, plan: &Plan) -> Timestamp {
    let pause = plan.pause.as_ref().map(|pause| pause.look_at);
    pause.filter(|at| is_due(state, plan, *at)).unwrap_or_else(|| due_at(state, plan))
}

pub(super) fn is_due(state: &State, plan: &Plan, now: Timestamp) -> bool {
    let Some(open) = &state.open else { return false };
    if plan.pause.as_ref().is_some_and(|pause| pause.look_at > now) {
        return false;
    }
    let admitted = open.not_before.is_none_or(|at| at <= now);
    let full = plan.max_events.is_some_and(|most| state.collected() >= u64::from(most));
    // A window whose events were all withdrawn ends at once, as skipped.
    let emptied = state.waiting() == 0;
    state.flushed || (admitted && (full || emptied || plan.due_at <= now))
}

/// The largest number of events that the open window takes while none of them is stashed.
pub(super) fn event_limit(state: &State) -> Option<usize> {
    // A flush takes all pending events.
    let open = state.open.as_ref().filter(|open| open.stashed == 0 && open.runs.is_empty() && !state.flushed)?;
    open.plan.as_ref()?.max_events.and_then(|most| usize::try_from(most).ok())
}

// The time at which the open window is due, and its reason: for the decision, the status and the commands.

/// The time at which the open window goes out if nothing more arrives, as far as pauses and limits are known. `None` while the
/// window is not planned.
pub(super) fn deadline(state: &State) -> Option<Timestamp> {
    let plan = state.plan()?;
    Some(foreseen(state, plan, String::new()).at)
}

/// The reason for [`deadline`], in words.
pub(super) fn why(state: &State) -> String {
    let why = why_due(state);
    let Some(plan) = state.plan() else { return why };
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
