//! Decides the next step, and when the open window is due. Pure functions of state and
//! time (rules 7 and 18).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_model::{
    rules::deadline::Deadline,
    step::{EventOrigin, Plan},
    window::{PlanSummary, THEN},
    words,
};

use super::{
    requests::{PreferencesState, ReopenRequest},
    state::{DigestRunState, OpenWindow, RepetitionMode, UnusedRunMode},
};

/// How long a run with nothing new waits for more. Otherwise a producer that keeps repeating events or
/// misspells its signals would start a run for every few of them. This is only a fifth of the rate a single run
/// can handle, and Temporal rejects signals to a run that is ending.
const AFTER_NOTHING_NEW: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestDecision {
    Wait(Timestamp),
    Plan,
    /// The window is full only with events that may already be in the ledger, so compare them by planning.
    Compare,
    /// Urgent events arrived while the digest in delivery waits for a better hour, so compare them by planning.
    CompareUrgent,
    Stash,
    Claim,
    Render,
    /// The relay rejected the message as too large.
    Shorten,
    Send,
    /// After a cancel or a drop, record the end of a delivery or a window in the ledger.
    Close,
    Retract,
    Reopen,
    DeadLetters,
    Audit,
    /// Nothing is pending or undelivered.
    Finish,
}

/// Drops commands with nothing left to act on. Call this before each [`decide`].
pub(super) fn clear_finished_commands(state: &mut DigestRunState, now: Timestamp) {
    let idle = state.delivering.is_none() && state.open.is_none() && state.waiting_count() == 0;
    state.idle_since = state.idle_since.or(Some(now)).filter(|_| idle);
    if state.open.is_none() || state.cancelled {
        state.retiming = None;
        state.preferences = PreferencesState::Current;
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

/// A replay decides again, with a clock that may be ahead: temporalio-sdk 1.1.1 merges workflow tasks that
/// ended without a command with the next task, and uses its time. So every decision except waiting must be the
/// same at any later time, and decisions that depend on time come last. The problem is gone once a replay of a
/// task without a command sees that task's time.
pub(super) fn decide(state: &DigestRunState, now: Timestamp) -> DigestDecision {
    if state.delivering.as_ref().is_some_and(|digest| digest.unrecorded.is_some()) {
        // Even before a cancel or a drop, because the ledger must record how the attempt ended.
        return DigestDecision::Send;
    }
    if state.winds_down() {
        return wind_down(state);
    }
    if let Some(chore) = next_chore(state) {
        return chore;
    }
    if let Some(until) = state.held_until(now) {
        return DigestDecision::Wait(until);
    }
    match (&state.delivering, &state.open) {
        (Some(digest), _) if !digest.rendered && digest.too_large.is_some() => DigestDecision::Shorten,
        (Some(digest), _) if !digest.rendered => DigestDecision::Render,
        (Some(digest), _) => digest.waits_until(now).map_or(DigestDecision::Send, DigestDecision::Wait),
        (None, Some(OpenWindow { plan: Some(plan), .. })) if !is_due(state, plan, now) => {
            DigestDecision::Wait(wait_until(state, plan))
        }
        // Plan again at the deadline rather than with each event, because an event already in the ledger
        // should not move it.
        (None, Some(_)) if has_slid(state) && !state.flushed => DigestDecision::Plan,
        (None, Some(open)) if must_compare(state, open) => DigestDecision::Compare,
        (None, Some(_)) => DigestDecision::Claim,
        (None, None) => idle(state, now),
    }
}

/// Steps that are due at any time, even on hold: plan the window to show its deadline, and keep the state
/// small.
fn next_chore(state: &DigestRunState) -> Option<DigestDecision> {
    if !state.dead_letters.is_empty() {
        Some(DigestDecision::DeadLetters)
    } else if !state.audit_notes.is_empty() {
        Some(DigestDecision::Audit)
    } else if !state.retracts.is_empty() {
        Some(DigestDecision::Retract)
    } else if state.delivering.is_none() && ReopenRequest::is_asked(state.reopen.as_ref()) {
        Some(DigestDecision::Reopen)
    } else if state.delivering.is_none() && must_plan(state) {
        Some(DigestDecision::Plan)
    } else if state.compares_urgent() {
        Some(DigestDecision::CompareUrgent)
    } else if must_stash(state) && !is_full(state) {
        Some(DigestDecision::Stash)
    } else {
        None
    }
}

/// Ends everything without a message, after a cancel or a drop.
fn wind_down(state: &DigestRunState) -> DigestDecision {
    let doomed = state.doomed_count() > 0 && !state.pending.is_empty();
    if state.delivering.is_some() {
        DigestDecision::Close
    } else if ReopenRequest::is_asked(state.reopen.as_ref()) {
        // The ledger may already have resumed the digest, so it must end again.
        DigestDecision::Reopen
    } else if must_stash(state) && (doomed || state.open.as_ref().is_some_and(|open| !open.runs.is_empty())) {
        DigestDecision::Stash
    } else if state.open.is_some() || state.returned.is_some() || doomed {
        DigestDecision::Close
    } else {
        next_chore(state).unwrap_or(DigestDecision::Finish)
    }
}

/// An idle run waits for the next event as configured, and for at least [`AFTER_NOTHING_NEW`] if it got
/// nothing new.
fn idle(state: &DigestRunState, now: Timestamp) -> DigestDecision {
    let nothing_new = state.repetitions == RepetitionMode::NothingElse || waits_unused(state);
    let linger = state.linger.max(nothing_new.then_some(AFTER_NOTHING_NEW));
    let linger = linger.and_then(|linger| SignedDuration::try_from(linger).ok());
    let until = state.idle_since.zip(linger).and_then(|(since, linger)| since.checked_add(linger).ok());
    until.filter(|until| *until > now).map_or(DigestDecision::Finish, DigestDecision::Wait)
}

/// Returns `true` for decisions about repeated events that earlier versions did not make, or made with other
/// input.
pub(super) fn treats_repetitions(state: &DigestRunState, decision: DigestDecision) -> bool {
    match decision {
        DigestDecision::Wait(_) => state.idle_since.is_some() && state.repetitions == RepetitionMode::NothingElse,
        DigestDecision::Compare | DigestDecision::Stash => state.repetitions != RepetitionMode::Counted,
        _ => false,
    }
}

/// Earlier versions did not wait for a first event.
pub(super) fn waits_for_first(state: &DigestRunState, decision: DigestDecision) -> bool {
    matches!(decision, DigestDecision::Wait(_)) && state.idle_since.is_some() && waits_unused(state)
}

/// Returns `true` if this key has had no digest yet (e.g. because nothing could be decoded) and the run should
/// wait for one.
fn waits_unused(state: &DigestRunState) -> bool {
    state.summary.digests == 0 && state.unused == UnusedRunMode::Waits
}

/// Earlier versions did not wait before sending.
pub(super) fn waits_for_undo(state: &DigestRunState, decision: DigestDecision) -> bool {
    let digest = state.delivering.as_ref();
    matches!(decision, DigestDecision::Wait(_)) && digest.is_some_and(|digest| digest.undo_until.is_some())
}

fn must_plan(state: &DigestRunState) -> bool {
    let Some(open) = &state.open else { return state.waiting_count() > 0 };
    let Some(seen) = open.planned_from.as_ref().filter(|_| open.plan.is_some()) else { return true };
    let came = open.urgent_at.or_else(|| state.pending.urgent_at(usize::MAX));
    let urgent = seen.urgent_at.is_none() && came.is_some();
    state.preferences != PreferencesState::Current
        || state.retiming.is_some()
        || urgent
        || joined_kind(state).is_some()
        || (has_slid(state) && must_stash(state))
}

/// Set if the window was planned with only the other kind of events.
pub(super) fn joined_kind(state: &DigestRunState) -> Option<EventOrigin> {
    let seen = state.open.as_ref().filter(|open| open.plan.is_some())?.planned_from.as_ref()?;
    let returned_at = state.returned.as_ref().map(|returned| returned.at);
    if seen.only_returned && state.collected() > 0 {
        Some(EventOrigin::Own)
    } else if returned_at.is_some() && seen.returned_at != returned_at {
        Some(EventOrigin::Returned)
    } else {
        None
    }
}

/// Returns `true` if an event since the plan moves a sliding deadline, unless it is already in the ledger.
fn has_slid(state: &DigestRunState) -> bool {
    let Some(open) = &state.open else { return false };
    let last_at = state.pending.last().map(|last| last.at).or(open.stashed_at);
    let slide = state.plan().and_then(|plan| plan.slide);
    slide.is_some() && last_at.is_some() && last_at != open.planned_from.as_ref().map(|seen| seen.last_at)
}

fn must_stash(state: &DigestRunState) -> bool {
    let open = state.open.as_ref();
    let takes_more = open.is_none_or(|open| !open.closed_to_events);
    (takes_more && state.pending.overflows()) || open.is_some_and(|open| !open.runs.is_empty())
}

/// Returns `true` if the window may be full, but not with certainly new events alone (rule 3). Must not
/// depend on time; see [`decide`].
fn must_compare(state: &DigestRunState, open: &OpenWindow) -> bool {
    let Some(most) = open.plan.as_ref().and_then(|plan| plan.max_events).map(u64::from) else { return false };
    !state.flushed && state.collected() >= most && state.new_count() < most
}

/// A full window only claims its first events. Any other claim needs every event in the ledger or in its
/// input.
fn is_full(state: &DigestRunState) -> bool {
    event_limit(state).is_some_and(|most| state.pending.len() >= most)
}

fn wait_until(state: &DigestRunState, plan: &Plan) -> Timestamp {
    let pause = plan.pause.as_ref().map(|pause| pause.look_at);
    pause.filter(|at| is_due(state, plan, *at)).unwrap_or_else(|| due_at(state, plan))
}

pub(super) fn is_due(state: &DigestRunState, plan: &Plan, now: Timestamp) -> bool {
    let Some(open) = &state.open else { return false };
    if plan.pause.as_ref().is_some_and(|pause| pause.look_at > now) {
        return false;
    }
    let admitted = open.not_before.is_none_or(|at| at <= now);
    let full = plan.max_events.is_some_and(|most| state.collected() >= u64::from(most));
    // If all events were withdrawn, end the window now as skipped.
    let emptied = state.waiting_count() == 0;
    state.flushed || (admitted && (full || emptied || plan.due_at <= now))
}

/// Applies only while none of the window's events is stashed.
pub(super) fn event_limit(state: &DigestRunState) -> Option<usize> {
    let open = state.open.as_ref().filter(|open| open.stashed == 0 && open.runs.is_empty() && !state.flushed)?;
    open.plan.as_ref()?.max_events.and_then(|most| usize::try_from(most).ok())
}

/// When the open window will be sent if nothing more arrives, given the known pauses and limits.
pub(super) fn deadline(state: &DigestRunState) -> Option<Timestamp> {
    let plan = state.plan()?;
    Some(foreseen_deadline(state, plan, String::new()).at)
}

pub(super) fn deadline_reason(state: &DigestRunState) -> String {
    let why = why_due(state);
    let Some(plan) = state.plan() else { return why };
    let why = foreseen_deadline(state, plan, why).why;
    match undo_reason(state, plan) {
        Some(step) => why + THEN + &step,
        None => why,
    }
}

/// How long the message can be taken back. `None` for a flushed or urgent window, which is sent immediately.
pub(super) fn undo_period(state: &DigestRunState, plan: &Plan) -> Option<Duration> {
    plan.undo.filter(|_| !state.flushed && !plan.urgent)
}

fn undo_reason(state: &DigestRunState, plan: &Plan) -> Option<String> {
    let undo = undo_period(state, plan)?;
    Some(format!("waits {}, in which tidings digest drop takes it back", words::format_duration(undo)))
}

/// Due time, adjusted for pauses and for limits that were exhausted when planning. A flush bypasses the
/// limits.
fn foreseen_deadline(state: &DigestRunState, plan: &Plan, why: String) -> Deadline {
    let due_at = moved_due_at(state, plan);
    let at = pause_ends_at(plan).map_or(due_at, |at| at.max(resumes_at(state, plan).unwrap_or(at)).max(due_at));
    let limited = if state.flushed { &[][..] } else { &plan.limited };
    Deadline { at, why }.apply_limits(limited)
}

/// End of the known pauses. `None` if they are open-ended.
fn pause_ends_at(plan: &Plan) -> Option<Timestamp> {
    plan.paused_until.max(plan.pause.as_ref().and_then(|pause| pause.paused.until))
}

/// `None` unless the window is due during the pause. Flushed or urgent windows are sent as soon as it ends.
fn resumes_at(state: &DigestRunState, plan: &Plan) -> Option<Timestamp> {
    let at_once = state.flushed || plan.urgent;
    plan.resumes_at.filter(|_| !at_once && pause_ends_at(plan) > Some(moved_due_at(state, plan)))
}

fn why_due(state: &DigestRunState) -> String {
    let Some(open) = &state.open else { return String::new() };
    let Some(plan) = &open.plan else { return open.why.clone() };
    let slid = slid_deadline(state, plan).zip(plan.slide);
    let why = slid.map_or_else(
        || open.why.clone(),
        |(at, slide)| format!("{} after the latest event -> {at:.0}", words::format_duration(slide.by)),
    );
    match plan.paused_until.filter(|until| *until > due_at(state, plan)) {
        Some(until) => match resumes_at(state, plan) {
            Some(at) => format!("{why}; paused until {until:.0}; next good moment -> {at:.0}"),
            None => format!("{why}; paused until {until:.0}"),
        },
        None => why,
    }
}

/// Includes later changes. `None` until the window is planned.
pub(super) fn planned_summary(state: &DigestRunState) -> Option<PlanSummary> {
    let open = state.open.as_ref()?;
    let plan = open.plan.as_ref()?;
    let full = plan.max_events.filter(|most| state.new_count() >= u64::from(*most));
    let full = full.map(|most| format!("full with {most} event{}", if most == 1 { "" } else { "s" }));
    let flushed = if state.flushed { "an operator flushed it" } else { "" };
    let why = why_due(state);
    let undo = undo_reason(state, plan);
    let last = [why.as_str(), full.as_deref().unwrap_or_default(), flushed, undo.as_deref().unwrap_or_default()];
    let later: Vec<&str> = open.deferrals.iter().map(String::as_str).chain(last).collect();
    Some(PlanSummary::new(plan, &later))
}

pub(super) fn due_at(state: &DigestRunState, plan: &Plan) -> Timestamp {
    let not_before = state.open.as_ref().and_then(|open| open.not_before);
    not_before.map_or(plan.due_at, |at| at.max(plan.due_at))
}

/// Includes later events and admission, but not pauses.
pub(super) fn moved_due_at(state: &DigestRunState, plan: &Plan) -> Timestamp {
    slid_deadline(state, plan).unwrap_or_else(|| due_at(state, plan))
}

/// Set if events since the plan moved a sliding deadline.
fn slid_deadline(state: &DigestRunState, plan: &Plan) -> Option<Timestamp> {
    let at = plan.slide?.due_at(state.pending.last()?.at);
    Some(at).filter(|at| *at > due_at(state, plan))
}

pub(super) fn describe_move(to: Timestamp, from: Timestamp) -> String {
    format!("due at {to:.0}, was {from:.0}")
}
