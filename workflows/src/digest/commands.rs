//! Applies operators' commands and changes of preferences to the state.

use jiff::Timestamp;
use tidings_model::{
    command::{
        CommandContext, DropResult, DuePreview, FlushResult, HoldCommand, HoldResult, ReleaseCommand, ReleaseResult,
        ReopenCommand, ReopenResult, RetimeCommand, RetimeResult,
    },
    pause::PauseDetails,
    step::Plan,
    window::WaitReason,
};

use super::{
    decide::{deadline, deadline_reason, describe_move, is_due},
    requests::{DropRequest, PreferencesState},
    state::DigestRunState,
    window::spread_if_overdue,
};

/// Makes the pending events due. Also sends a message in its undo period or waiting for a better hour; with
/// `hurries`, also one waiting for its next attempt, or if the running attempt turns out to need another. A
/// digest in delivery and a hold still come first.
pub(super) fn flush(state: &mut DigestRunState, order: CommandContext, hurries: bool, now: Timestamp) -> FlushResult {
    let events = state.waiting_count();
    state.flushed = events > 0;
    let digest = state.delivering.as_mut();
    let hurried = digest.is_some_and(|digest| {
        let waits = hurries && digest.waits_for_attempt(now);
        if waits {
            digest.attempt_now();
        }
        digest.flushed |= hurries && digest.is_attempted(now);
        digest.end_undo() || waits || digest.flushed || digest.waits_for_moment(now)
    });
    if state.flushed || hurried {
        if let Some(digest) = &mut state.delivering {
            digest.note_wait(WaitReason::Flushed);
        }
        state.note_command("flush", order, now);
    }
    let held = state.held_until(now).is_some();
    FlushResult { events, behind: state.delivering_id(), held, hurried, paused: paused(state, now) }
}

pub(super) fn hold(state: &mut DigestRunState, hold: HoldCommand, now: Timestamp) -> HoldResult {
    let held = HoldResult { events: state.waiting_count(), delivering: state.delivering_id() };
    if held != HoldResult::default() {
        let until = hold.until.map(|until| format!(" (until {until:.0})")).unwrap_or_default();
        let CommandContext { by, why } = hold.order.clone();
        state.note_command("hold", CommandContext { by, why: why + &until }, now);
        state.hold = Some(hold);
    }
    held
}

/// Overdue events go out now, or after the key's share of the spread.
pub(super) fn release(
    state: &mut DigestRunState,
    ReleaseCommand { order, spread }: ReleaseCommand,
    now: Timestamp,
) -> ReleaseResult {
    let held = state.held_until(now).is_some();
    state.hold = None;
    if held {
        state.note_command("release", order, now);
    }
    if held && spread {
        let share = state.overdue_share();
        spread_if_overdue(state, share, "the hold is over", now);
        if let Some(digest) = &mut state.delivering {
            digest.wait_for(share, "the hold is over", now);
        }
    } else if held {
        release_at_once(state, now);
    }
    let due_at = if state.flushed { Some(now) } else { deadline(state) };
    ReleaseResult { held, events: state.waiting_count(), due_at, paused: paused(state, now) }
}

/// Sends overdue events at any hour, because an operator named this key.
fn release_at_once(state: &mut DigestRunState, now: Timestamp) {
    if let Some(digest) = &mut state.delivering {
        digest.note_wait(WaitReason::Released);
    }
    let overdue = state.plan().is_some_and(|plan| is_due(state, plan, now));
    if let Some(open) = &mut state.open {
        open.released = overdue;
    }
}

fn paused(state: &DigestRunState, now: Timestamp) -> Option<PauseDetails> {
    state.pause(now).map(|pause| pause.paused.clone())
}

/// The `close` step writes the audit entry.
pub(super) fn discard(state: &mut DigestRunState, order: CommandContext) -> DropResult {
    let dropped = DropResult { events: state.waiting_count(), delivering: state.delivering_id() };
    if dropped != DropResult::default() {
        state.drop = Some(DropRequest { order, events: state.pending.len() });
        state.hold = None;
        state.flushed = false;
    }
    dropped
}

/// Without a time, plans the window again with the current configuration and preferences.
pub(super) fn retime(
    state: &mut DigestRunState,
    RetimeCommand { order, at }: RetimeCommand,
    now: Timestamp,
) -> RetimeResult {
    let was = deadline(state);
    let (Some(_), Some(open)) = (was, &mut state.open) else { return retime_result(state, was) };
    match (at, open.plan.take()) {
        (Some(at), Some(plan)) => {
            let moved = describe_move(at, plan.due_at);
            let why = format!("retimed by {}: {} -> {at:.0}", order.by, order.why);
            open.set_plan(Plan { due_at: at, why, slide: None, ..plan });
            // Use this exact hour, not the next good one, until another plan moves the deadline.
            open.released = true;
            open.not_before = None;
            open.deferrals.clear();
            state.note_command("retime", CommandContext { why: format!("{}: {moved}", order.why), ..order }, now);
        }
        (_, plan) => {
            open.plan = plan;
            state.retiming = Some(order);
        }
    }
    retime_result(state, was)
}

pub(super) fn retime_result(state: &DigestRunState, was: Option<Timestamp>) -> RetimeResult {
    RetimeResult { events: state.waiting_count(), was, due_at: deadline(state), why: deadline_reason(state) }
}

pub(super) fn due_events(state: &DigestRunState) -> Option<DuePreview> {
    let open = state.open.as_ref()?;
    let events = state.pending.head(state.pending.page_len(usize::MAX));
    let more = state.collected() - open.stashed - events.len() as u64;
    let plan = open.plan.as_ref();
    Some(DuePreview {
        window: open.window.clone(),
        events,
        more,
        limits: plan.and_then(|plan| plan.limits),
        basis: plan.and_then(|plan| plan.basis.clone()),
        promised_at: plan.and_then(|plan| plan.promised_at),
    })
}

/// Returns a refusal if this is not possible now.
pub(super) fn reopen(state: &mut DigestRunState, reopen: ReopenCommand, now: Timestamp) -> Option<ReopenResult> {
    let refused = |why: String| Some(ReopenResult { events: 0, refused: Some(why) });
    let asked = state.reopen.as_ref().filter(|other| other.answer.is_none()).map(|other| other.request.digest_id);
    if let Some(digest) = state.delivering_id().or(asked) {
        return refused(format!("digest {digest} is being delivered; try again when it has ended"));
    }
    // A lost workflow task may already have claimed a window that is not open yet.
    if state.window(now).is_some_and(|window| window.digest_id == reopen.digest_id) {
        return refused("its window is still open; a flush sends it".to_owned());
    }
    if state.winds_down() {
        return refused("the workflow is being cancelled; try again when that is done".to_owned());
    }
    state.reopen = Some(reopen.into());
    None
}

/// Sends a waiting digest now instead of resuming it, because an operator named it by its id.
pub(super) fn hurry_delivery(state: &mut DigestRunState, order: CommandContext, now: Timestamp) -> ReopenResult {
    let Some(digest) = &mut state.delivering else { return ReopenResult::default() };
    digest.attempt_now();
    let events = digest.items;
    state.note_command("retry", order, now);
    ReopenResult { events, refused: None }
}

/// Call this after preferences, or a pause, changed. Plans the open window again, and checks a digest waiting
/// for a pause.
pub(super) fn facts_changed(state: &mut DigestRunState, now: Timestamp) {
    if state.open.is_some() || state.waiting_count() > 0 {
        state.preferences = PreferencesState::Changed;
    }
    if let Some(digest) = &mut state.delivering {
        digest.look_again(now);
    }
}
