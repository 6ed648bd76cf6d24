//! Steps of a window. `plan` computes its deadline and opens it, `stash` writes a page of events to the ledger,
//! `claim` (`load` on the wire) makes it a digest, and `close` ends it, or the delivery, without a message.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use tidings_model::{
    command::CommandContext,
    step::{
        ClaimAnswer, ClaimInput, CloseAnswer, CloseDigestInput, DeadlineInputs, PauseWait, Plan, PlanInput,
        StashAnswer, StashInput,
    },
    window::{DigestOutcome, WaitReason, WindowEnd},
};

use super::{
    decide::{self, event_limit, is_due, joined_kind, moved_due_at, planned_summary, undo_period},
    delivery::DigestDelivery,
    requests::PreferencesState,
    state::{DigestRunState, RepetitionMode, to_index},
};
use crate::driver::after_delay;

pub(super) fn begin_plan(state: &mut DigestRunState, asked_at: Timestamp) -> Option<PlanInput> {
    if state.open.is_none() && state.waiting_count() == 0 {
        return None;
    }
    let signs = deadline_inputs(state, asked_at)?;
    if state.preferences == PreferencesState::Changed {
        state.preferences = PreferencesState::Planning;
    }
    let open = state.open.as_ref();
    let (event_ids, contents) = state.pending.contents_after(state.compared_count());
    Some(PlanInput {
        asked_at: Some(asked_at),
        key: state.key.clone()?,
        signs,
        open: open.map(|open| open.window.digest_id),
        event_ids,
        contents,
        waited: state.queued_behind_delivery,
        before: open.and_then(|open| open.plan.clone()),
        anew_at: state.retiming.as_ref().map(|_| asked_at),
        joined: joined_kind(state),
        opens_returned: true,
    })
}

pub(super) fn begin_urgent(state: &mut DigestRunState, asked_at: Timestamp) -> Option<PlanInput> {
    let (event_ids, contents) = state.pending.urgent_contents();
    Some(PlanInput {
        asked_at: Some(asked_at),
        key: state.key.clone()?,
        signs: deadline_inputs(state, asked_at)?,
        open: None,
        event_ids,
        contents,
        waited: false,
        before: None,
        anew_at: None,
        joined: None,
        opens_returned: true,
    })
}

/// The window will be planned after the delivery.
pub(super) fn apply_urgent(state: &mut DigestRunState, asked: &PlanInput, mut plan: Plan, _: Timestamp) {
    forget_known(state, asked, &plan.known);
    state.note_returned(plan.returned.take());
    if plan.known.len() < asked.event_ids.len() {
        state.hurry_delivery();
    }
}

/// Replaces an existing plan.
pub(super) fn apply_plan(state: &mut DigestRunState, asked: &PlanInput, mut plan: Plan, now: Timestamp) {
    forget_known(state, asked, &plan.known);
    let new = asked.event_ids.len() - plan.known.len();
    state.note_compared(new);
    state.note_returned(plan.returned.take());
    let nothing_new = state.open.is_none() && state.waiting_count() == 0;
    if state.repetitions != RepetitionMode::Counted {
        state.repetitions = if nothing_new { RepetitionMode::NothingElse } else { RepetitionMode::Apart };
    }
    if nothing_new {
        return;
    }
    // An event already in the ledger should not move the deadline. If it did, plan again.
    if !plan.known.is_empty() && deadline_inputs(state, now).as_ref() != Some(&asked.signs) {
        return;
    }
    // If an operator set a deadline meanwhile, keep it, and take the rest from the new plan.
    let retimed =
        state.open.as_ref().and_then(|open| open.plan.clone()).filter(|plan| asked.before.as_ref() != Some(plan));
    let before = retimed.as_ref().or(asked.before.as_ref());
    let plan = match &retimed {
        Some(Plan { due_at, why, slide, .. }) => Plan { due_at: *due_at, why: why.clone(), slide: *slide, ..plan },
        None => plan,
    };
    note_new_deadline(state, asked.anew_at.is_some(), before, &plan, now);
    state.queued_behind_delivery = false;
    if state.preferences == PreferencesState::Planning {
        state.preferences = PreferencesState::Current;
    }
    if state.open.is_none() {
        state.ensure_open(now);
        state.note_compared(new);
    }
    let same = |old: &Plan| (old.due_at, old.revision, old.urgent) == (plan.due_at, plan.revision, plan.urgent);
    state.linger = plan.linger;
    state.share = plan.share;
    let resumed = before.and_then(|before| before.pause.clone()).filter(|_| plan.pause.is_none());
    if let Some(open) = &mut state.open {
        open.not_before = open.not_before.filter(|_| asked.anew_at.is_none() && before.is_some_and(same));
        if asked.anew_at.is_some() || !before.is_some_and(same) {
            open.deferrals.clear();
        }
        open.planned_from = Some(asked.signs.clone());
        open.set_plan(Plan { known: Vec::new(), ..plan });
    }
    if let Some(PauseWait { share, .. }) = resumed {
        spread_if_overdue(state, share, "the pause is over", now);
    }
}

/// Removes events already in the ledger. One that changed meanwhile stays, and a later write compares it.
fn forget_known(state: &mut DigestRunState, asked: &PlanInput, known: &[String]) {
    if known.is_empty() {
        return;
    }
    let known: BTreeSet<_> = known.iter().collect();
    let asked = asked.event_ids.iter().zip(&asked.contents).filter(|(id, _)| known.contains(id));
    let asked = asked.map(|(id, content)| (id.as_str(), content)).collect();
    let ids = state.pending.with_contents(&asked);
    state.forget_events(&ids);
}

/// Delays an overdue window by its share of the spread after a pause or a hold (rule 30), unless an operator
/// flushed it. A window with only withdrawn events ends immediately: it sends nothing.
pub(super) fn spread_if_overdue(state: &mut DigestRunState, share: Duration, why: &str, now: Timestamp) {
    let Some(plan) = state.plan() else { return };
    if !is_due(state, plan, now) || state.flushed || state.waiting_count() == 0 {
        return;
    }
    if let Some(open) = &mut state.open {
        let at = after_delay(now, share);
        open.not_before = Some(at);
        open.why = format!("{why}; spread -> {at:.0}");
        open.note_deferral(&open.why.clone());
    }
}

/// Records both deadlines, and who asked for the new one.
fn note_new_deadline(state: &mut DigestRunState, anew: bool, before: Option<&Plan>, plan: &Plan, now: Timestamp) {
    let order = if anew { state.retiming.take() } else { None };
    let Some(before) = before else { return };
    let moved = decide::describe_move(plan.due_at, before.due_at);
    if let Some(CommandContext { by, why }) = order {
        state.note_command("retime", CommandContext { by, why: format!("{why}: {moved}") }, now);
    } else if before.revision != plan.revision && before.due_at != plan.due_at {
        state.note_command(
            "retime",
            CommandContext { by: "tidings".into(), why: format!("the recipient chose: {moved}") },
            now,
        );
    }
}

fn deadline_inputs(state: &DigestRunState, now: Timestamp) -> Option<DeadlineInputs> {
    let open = state.open.as_ref();
    let opened_at = state.opened_at(now)?;
    let first = state.pending.first().filter(|first| first.opens_at() == opened_at);
    let last_at = state.pending.last().map(|last| last.at).or_else(|| open?.stashed_at).unwrap_or(opened_at);
    Some(DeadlineInputs {
        opened_at,
        category: first.map(|first| first.event.category.clone()).or_else(|| open?.category.clone()),
        last_at,
        urgent_at: open.and_then(|open| open.urgent_at).or_else(|| state.pending.urgent_at(usize::MAX)),
        returned_at: state.returned.as_ref().map(|returned| returned.at),
        only_returned: state.collected() == 0 && state.returned.is_some(),
    })
}

pub(super) fn begin_stash(state: &mut DigestRunState, asked_at: Timestamp) -> Option<StashInput> {
    state.ensure_open(asked_at);
    let open = state.open.as_ref()?;
    let window = open.window.clone();
    let delivering = state.delivering_id();
    let counts_new = state.repetitions != RepetitionMode::Counted;
    if let Some(run) = open.runs.first() {
        let (events, runs) = (Vec::new(), vec![run.clone()]);
        return Some(StashInput { window, events, runs, delivering, opens_returned: true, counts_new });
    }
    let events = state.pending.head(state.pending.page_len(state.doomed_count()));
    Some(StashInput { window, events, runs: Vec::new(), delivering, opens_returned: true, counts_new })
}

pub(super) fn apply_stash(state: &mut DigestRunState, done: &StashInput, answer: StashAnswer, _: Timestamp) {
    let StashAnswer { taken, returned, events } = answer;
    state.note_leaving(to_index(taken));
    state.drop_taken(&done.events, taken);
    if let Some(open) = &mut state.open {
        open.stashed += taken;
        open.late = returned.or(open.late.take());
        open.closed_to_events |= to_index(taken) < done.events.len();
        open.runs.retain(|run| !done.runs.contains(run));
        if open.runs.is_empty() {
            open.stashed += std::mem::take(&mut open.unread);
        }
        open.stashed = events.unwrap_or(open.stashed);
    }
}

pub(super) fn claim_input(state: &DigestRunState, asked_at: Timestamp) -> Option<ClaimInput> {
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
        planned: planned_summary(state),
        due_at: Some(moved_due_at(state, plan)).filter(|at| *at != open.window.due_at),
        limits: plan.limits,
        undo: undo_period(state, plan),
        released: open.released,
        limit_ended_at: open.limit_ends_at,
        unknown_since: open.unknown_since,
    })
}

pub(super) fn apply_claim(state: &mut DigestRunState, asked: &ClaimInput, answer: ClaimAnswer, _: Timestamp) {
    let left = |ending: &CloseAnswer| to_index(ending.taken) < asked.events.len();
    state.flushed &= match &answer {
        ClaimAnswer::Nothing(ending) => left(ending),
        // A flush outlasts a pause. In the other cases, keep a flush only if it arrived during the claim.
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
                // The window was not deferred because of the hour, and the new time will be a good one
                // anyway.
                open.released = false;
                open.limit_ends_at = open.limit_ends_at.max(limit_ends_at);
            }
            if let Some(plan) = &mut open.plan {
                plan.pause = pause;
            }
        }
        ClaimAnswer::Changed => state.preferences = PreferencesState::Changed,
        ClaimAnswer::Claimed { items, groups, taken, rendered } => {
            state.close_window(&asked.events, taken);
            // An urgent event that arrived during the claim would have to wait behind this digest.
            let is_urgent = state.pending.urgent_at(usize::MAX).is_some();
            let wait = if is_urgent { WaitReason::Urgent } else { asked.wait_reason() };
            let digest = DigestDelivery::new(asked.due_window(), items, groups);
            state.delivering = Some(DigestDelivery { stored: rendered, undo: asked.undo, wait, ..digest });
        }
        ClaimAnswer::Nothing(CloseAnswer { closed, taken, .. }) => {
            state.close_window(&asked.events, taken);
            state.record_end(asked.window.digest_id, closed);
        }
    }
}

pub(super) fn begin_close(state: &mut DigestRunState, asked_at: Timestamp) -> Option<CloseDigestInput> {
    let (by, why) = match state.drop.as_ref().map(|drop| &drop.order) {
        Some(CommandContext { by, why }) => (by.clone(), why.clone()),
        None => (String::new(), "cancelled".to_owned()),
    };
    let closed = WindowEnd { outcome: DigestOutcome::Dropped, why };
    if let Some(digest) = &state.delivering {
        return Some(CloseDigestInput {
            asked_at,
            window: digest.window.clone(),
            events: Vec::new(),
            closed,
            by,
            planned: None,
            opens_returned: true,
        });
    }
    state.ensure_open(asked_at);
    let events = state.pending.head(state.pending.page_len(state.doomed_count()));
    Some(CloseDigestInput {
        asked_at,
        window: state.open.as_ref()?.window.clone(),
        events,
        closed,
        by,
        planned: planned_summary(state),
        opens_returned: true,
    })
}

pub(super) fn apply_close(
    state: &mut DigestRunState,
    asked: &CloseDigestInput,
    CloseAnswer { closed, taken, returned }: CloseAnswer,
    _: Timestamp,
) {
    if state.delivering.take().is_none() {
        state.close_window(&asked.events, taken);
    }
    state.note_returned(returned);
    state.record_end(asked.window.digest_id, closed);
}
