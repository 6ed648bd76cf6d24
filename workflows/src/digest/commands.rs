//! Applies operators' commands and changes of preferences to the state.

use jiff::Timestamp;
use tidings_model::{
    command::{Dropped, Due, Flushed, Held, Hold, Order, Release, Released, Reopen, Reopened, Retime, Retimed},
    pause::Paused,
    step::Plan,
    window::Wait,
};

use super::{
    decide::{deadline, is_due, moved, why},
    requests::{Drop, Preferences},
    state::State,
    window::spread_if_overdue,
};

/// Makes the pending events due. Also sends a message now if it is in its undo period or waiting for a better
/// hour; with `hurries`, also if it is waiting for its next attempt, or if the running attempt turns out to
/// need another. A digest in delivery and a hold still come first.
pub(super) fn flush(state: &mut State, order: Order, hurries: bool, now: Timestamp) -> Flushed {
    let events = state.waiting();
    state.flushed = events > 0;
    let digest = state.delivering.as_mut();
    let hurried = digest.is_some_and(|digest| {
        let waits = hurries && digest.waits_for_attempt(now);
        if waits {
            digest.hurry();
        }
        digest.flushed |= hurries && digest.is_attempted(now);
        digest.end_undo() || waits || digest.flushed || digest.waits_for_moment(now)
    });
    if state.flushed || hurried {
        if let Some(digest) = &mut state.delivering {
            digest.note_wait(Wait::Flushed);
        }
        state.note("flush", order, now);
    }
    let held = state.held_until(now).is_some();
    Flushed { events, behind: state.delivering_id(), held, hurried, paused: paused(state, now) }
}

pub(super) fn hold(state: &mut State, hold: Hold, now: Timestamp) -> Held {
    let held = Held { events: state.waiting(), delivering: state.delivering_id() };
    if held != Held::default() {
        let until = hold.until.map(|until| format!(" (until {until:.0})")).unwrap_or_default();
        let Order { by, why } = hold.order.clone();
        state.note("hold", Order { by, why: why + &until }, now);
        state.hold = Some(hold);
    }
    held
}

/// Overdue events go out now, or after the key's share of the spread.
pub(super) fn release(state: &mut State, Release { order, spread }: Release, now: Timestamp) -> Released {
    let held = state.held_until(now).is_some();
    state.hold = None;
    if held {
        state.note("release", order, now);
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
    Released { held, events: state.waiting(), due_at, paused: paused(state, now) }
}

/// Sends overdue events at any hour, because an operator named this key.
fn release_at_once(state: &mut State, now: Timestamp) {
    if let Some(digest) = &mut state.delivering {
        digest.note_wait(Wait::Released);
    }
    let overdue = state.plan().is_some_and(|plan| is_due(state, plan, now));
    if let Some(open) = &mut state.open {
        open.released = overdue;
    }
}

fn paused(state: &State, now: Timestamp) -> Option<Paused> {
    state.pause(now).map(|pause| pause.paused.clone())
}

/// The `close` step writes the audit entry.
pub(super) fn discard(state: &mut State, order: Order) -> Dropped {
    let dropped = Dropped { events: state.waiting(), delivering: state.delivering_id() };
    if dropped != Dropped::default() {
        state.drop = Some(Drop { order, events: state.pending.len() });
        state.hold = None;
        state.flushed = false;
    }
    dropped
}

/// Without a time in the command, plans the window again with the current configuration and preferences.
pub(super) fn retime(state: &mut State, Retime { order, at }: Retime, now: Timestamp) -> Retimed {
    let was = deadline(state);
    let (Some(_), Some(open)) = (was, &mut state.open) else { return retimed(state, was) };
    match (at, open.plan.take()) {
        (Some(at), Some(plan)) => {
            let moved = moved(at, plan.due_at);
            let why = format!("retimed by {}: {} -> {at:.0}", order.by, order.why);
            open.set_plan(Plan { due_at: at, why, slide: None, ..plan });
            // Use this exact hour, not the next good one, until another plan moves the deadline.
            open.released = true;
            open.not_before = None;
            open.deferrals.clear();
            state.note("retime", Order { why: format!("{}: {moved}", order.why), ..order }, now);
        }
        (_, plan) => {
            open.plan = plan;
            state.retiming = Some(order);
        }
    }
    retimed(state, was)
}

pub(super) fn retimed(state: &State, was: Option<Timestamp>) -> Retimed {
    Retimed { events: state.waiting(), was, due_at: deadline(state), why: why(state) }
}

pub(super) fn due(state: &State) -> Option<Due> {
    let open = state.open.as_ref()?;
    let events = state.pending.head(state.pending.page_len(usize::MAX));
    let more = state.collected() - open.stashed - events.len() as u64;
    let plan = open.plan.as_ref();
    Some(Due {
        window: open.window.clone(),
        events,
        more,
        limits: plan.and_then(|plan| plan.limits),
        basis: plan.and_then(|plan| plan.basis.clone()),
        promised_at: plan.and_then(|plan| plan.promised_at),
    })
}

/// Returns a refusal if this is not possible now.
pub(super) fn reopen(state: &mut State, reopen: Reopen, now: Timestamp) -> Option<Reopened> {
    let refused = |why: String| Some(Reopened { events: 0, refused: Some(why) });
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

/// Sends a digest waiting for its next attempt now instead of resuming it, because an operator named it by
/// its id.
pub(super) fn hurry(state: &mut State, order: Order, now: Timestamp) -> Reopened {
    let Some(digest) = &mut state.delivering else { return Reopened::default() };
    digest.hurry();
    let events = digest.items;
    state.note("retry", order, now);
    Reopened { events, refused: None }
}

/// Call this after preferences changed, or after a pause started or ended. Plans the open window again, and
/// checks a digest waiting for a pause.
pub(super) fn facts_changed(state: &mut State, now: Timestamp) {
    if state.open.is_some() || state.waiting() > 0 {
        state.preferences = Preferences::Changed;
    }
    if let Some(digest) = &mut state.delivering {
        digest.look_again(now);
    }
}
