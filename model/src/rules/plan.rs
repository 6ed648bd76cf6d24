//! Plans a window: computes its deadline from the digest type, the recipient and the events so
//! far (rules 9, 17 and 18).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    Cadence,
    records::KeyFacts,
    rules::{
        deadline::{Deadline, DeadlineTiming},
        effective::{EffectiveSettings, SendBlock, consent_or_suppression_block},
        pause,
        promise::{self, RetimeDecision},
        spread, urgent,
    },
    settings::{DigestSettings, FrequencyLimits},
    step::{DeadlineInputs, EventOrigin, Plan, PlanInput},
    window::DeadlineBasis,
    words,
    zone::is_same_zone,
};

/// A preference change this close to the deadline only affects the next window (rule 15). At most half the
/// window's length.
pub const GRACE: Duration = Duration::from_mins(15);

/// Plans a new window, or updates an open one. `known` are its events in the ledger. `limits` are today's; a
/// window keeps its own unless an operator re-times it (rule 16).
#[must_use]
pub fn plan_window(
    settings: &DigestSettings,
    limits: FrequencyLimits,
    facts: &KeyFacts,
    input: &PlanInput,
    known: Vec<String>,
    now: Timestamp,
) -> Plan {
    let facts = &*facts.without_future_dates(now);
    let before = input.before.as_ref().filter(|_| input.anew_at.is_none());
    let limits = before.and_then(|before| before.limits).unwrap_or(limits);
    let effective = EffectiveSettings::new(settings, facts, now);
    let plan = Plan {
        known,
        returned: None,
        due_at: input.signs.opened_at,
        why: String::new(),
        max_events: None,
        slide: None,
        urgent: false,
        promised_at: None,
        then: None,
        paused_until: facts.preferences.paused_until,
        resumes_at: None,
        pause: None,
        revision: facts.revision,
        follows: effective.describe_settings(),
        basis: Some(effective.basis()),
        linger: settings.keep_open,
        undo: settings.undo,
        limits: Some(limits),
        limited: Vec::new(),
        share: Some(spread::overdue_share(&input.key.workflow_id(), settings.spread)),
    };
    let block = consent_or_suppression_block(facts).map(|block| match block {
        SendBlock::OptedOut => "at once: the recipient opted out".to_owned(),
        SendBlock::Suppressed(_) => "at once: the address is suppressed".to_owned(),
    });
    // Nothing will be sent, so we close the window immediately and record the reason in the ledger.
    if let Some(why) = block.or_else(|| effective.never_reason(&limits)) {
        return Plan { why, ..plan };
    }
    let pause = pause::pause_wait(facts.pause.as_ref(), &input.key.workflow_id(), settings.spread, now);
    let plan = Plan { pause, ..plan };
    let timing = DeadlineTiming::new(settings, &input.key, &effective);
    let kept = before.filter(|before| keeps_deadline(before, facts, &effective, input));
    // If the configuration changed to `never` after this window was planned, it gives us no deadline to use
    // instead.
    let is_replaced = input.joined == Some(EventOrigin::Own) && effective.cadence != Cadence::Never;
    let plan = match (before, kept) {
        (_, Some(kept)) if !is_replaced => keep_deadline(kept, &timing, &effective, &input.signs, plan),
        (Some(before), None) => choose_deadline(
            before,
            &timing,
            &effective,
            &input.signs,
            new_deadline(settings, facts, input, &effective, &timing, plan),
        ),
        _ => new_deadline(settings, facts, input, &effective, &timing, plan),
    };
    urgent::expedite(plan, facts, &input.signs)
}

/// Plans while the digest type is not configured. An open window keeps its deadline. A new one is due
/// immediately, so its claim waits for the configuration (rule 33) and then asks for another plan.
#[must_use]
pub fn provisional_plan(facts: &KeyFacts, input: &PlanInput, known: Vec<String>, now: Timestamp) -> Plan {
    let pause = pause::pause_wait(facts.pause.as_ref(), &input.key.workflow_id(), None, now);
    let paused_until = facts.preferences.paused_until;
    if let Some(before) = &input.before {
        return Plan { known, paused_until, pause, ..before.clone() };
    }
    Plan {
        known,
        returned: None,
        due_at: input.signs.opened_at,
        why: missing_table(&input.key.digest_type),
        max_events: None,
        slide: None,
        urgent: false,
        promised_at: None,
        then: None,
        paused_until,
        resumes_at: None,
        pause,
        revision: Plan::PROVISIONAL,
        follows: String::new(),
        basis: None,
        linger: None,
        undo: None,
        limits: None,
        share: None,
        limited: Vec::new(),
    }
}

#[must_use]
pub fn missing_table(digest_type: &str) -> String {
    format!(
        "digest type {digest_type:?} is not configured: add [digest.{digest_type}] to tidings.toml and restart the worker"
    )
}

/// Returns `true` if an open window keeps its deadline: the recipient changed nothing relevant, or too late.
/// A change in `tidings.toml` does not move it (rule 16), but an operator's retime does.
pub(super) fn keeps_deadline(
    before: &Plan,
    facts: &KeyFacts,
    effective: &EffectiveSettings,
    input: &PlanInput,
) -> bool {
    if input.anew_at.is_some() {
        return false;
    }
    let is_unchanged = || match &before.basis {
        Some(basis) => effective.has_basis(basis),
        None => before.follows == effective.describe_settings(),
    };
    // As for a new plan: this `never` comes from a changed configuration.
    if before.revision == facts.revision || effective.cadence == Cadence::Never || is_unchanged() {
        return true;
    }
    let length = before.due_at.duration_since(input.signs.opened_at);
    let grace = SignedDuration::try_from(GRACE).unwrap_or(SignedDuration::MAX).min(length / 2);
    facts.changed_at.is_some_and(|at| at <= before.due_at && before.due_at.duration_since(at) <= grace)
}

/// Picks `new`, or the deadline promised before the recipient chose another schedule (rule 15).
fn choose_deadline(
    before: &Plan,
    timing: &DeadlineTiming<'_>,
    effective: &EffectiveSettings,
    signs: &DeadlineInputs,
    new: Plan,
) -> Plan {
    match promise::decide_retiming(before, effective, timing, new.due_at) {
        RetimeDecision::Moves => new,
        RetimeDecision::MovesWithin(promised_at) => Plan { promised_at: Some(promised_at), ..new },
        RetimeDecision::Stays(Deadline { at, why }) => {
            Plan { due_at: at, why, ..keep_deadline(before, timing, effective, signs, new) }
        }
    }
}

/// The latest event may still slide the deadline (rule 9).
fn keep_deadline(
    before: &Plan,
    timing: &DeadlineTiming<'_>,
    effective: &EffectiveSettings,
    signs: &DeadlineInputs,
    plan: Plan,
) -> Plan {
    let Plan { known, revision, paused_until, pause, limits, share, basis, .. } = plan;
    let follows_another = |(before, now): &(&DeadlineBasis, DeadlineBasis)| {
        before.cadence != now.cadence || !is_same_zone(&before.zone, &now.zone)
    };
    let then = before.basis.as_ref().zip(basis).filter(follows_another).map(|_| effective.schedule_sentence());
    let kept = Plan { known, then, paused_until, pause, revision, limits, share, ..before.clone() };
    match before.slide.filter(|_| !before.urgent) {
        Some(slide) if slide.due_at(signs.last_at) > slide.due_at(signs.opened_at) => {
            let Deadline { at, why } = timing.sliding_deadline(slide, signs.last_at);
            Plan { due_at: at, why, ..kept }
        }
        _ => kept,
    }
}

fn new_deadline(
    settings: &DigestSettings,
    facts: &KeyFacts,
    input: &PlanInput,
    effective: &EffectiveSettings,
    timing: &DeadlineTiming<'_>,
    plan: Plan,
) -> Plan {
    let opened_at = input.signs.opened_at;
    let immediate = immediate_cadence(settings, facts, effective, input);
    let (cadence, words, limit) = match immediate {
        Some((cadence, words)) => (cadence, Some(words), None),
        None => (effective.cadence.clone(), effective.adapted_words(), effective.cadence.max_events()),
    };
    // `instant` sends one email per arriving event. Events collected before should not cause a burst of
    // emails.
    let limit = limit.filter(|_| !input.waited && input.before.is_none());
    let from = counts_from(&cadence, facts, effective, input, opened_at);
    let slide = cadence.sliding_deadline(opened_at);
    let Deadline { at, why } = match slide.filter(|_| input.signs.last_at > opened_at) {
        Some(slide) => timing.sliding_deadline(slide, input.signs.last_at),
        None => timing.cadence_deadline(&cadence, words, from),
    };
    Plan { due_at: at, why, max_events: limit.or(settings.max_events), slide, ..plan }
}

/// When the cadence starts to count. Slots before its choice do not, because we never announced them.
pub(super) fn counts_from(
    cadence: &Cadence,
    facts: &KeyFacts,
    effective: &EffectiveSettings,
    input: &PlanInput,
    at: Timestamp,
) -> Timestamp {
    let chosen_at = input.anew_at.or_else(|| facts.changed_at.filter(|_| input.before.is_some()));
    let from = chosen_at.filter(|_| cadence.follows_the_calendar()).map_or(at, |chosen_at| chosen_at.max(at));
    promise::after_served(cadence, facts, effective, from)
}

/// The immediate cadence replacing the configured one: for the first event after a silence, or because of a
/// category's delay. An adapted cadence is not replaced, because this recipient opens nothing.
fn immediate_cadence(
    settings: &DigestSettings,
    facts: &KeyFacts,
    effective: &EffectiveSettings,
    input: &PlanInput,
) -> Option<(Cadence, String)> {
    if effective.adapted.is_some() {
        return None;
    }
    if let Some(silence) = settings.send_first {
        let silent = |last: Timestamp| {
            SignedDuration::try_from(silence).is_ok_and(|s| input.signs.opened_at.duration_since(last) >= s)
        };
        if facts.last_sent_at.is_none_or(silent) {
            return Some((Cadence::Instant, format!("at once, as the first in {}", words::format_duration(silence))));
        }
    }
    let immediate = matches!(effective.cadence, Cadence::Instant | Cadence::After(_));
    let category = input.signs.category.as_ref().filter(|_| immediate)?;
    let delay = settings.delay.get(category)?;
    Some((Cadence::After(*delay), format!("{category} may wait {}", words::format_duration(*delay))))
}

#[cfg(test)]
mod tests;
