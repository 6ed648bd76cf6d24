//! `claim`: claims a due window's events, defers the window, or ends it.
//!
//! An ordinary window also stores the message: the digest is new, and the input contains all its events.
//! Otherwise, or if the recipient has already seen an event, the ledger does the claim, since it may have more
//! events, and `render` makes the message.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_model::{
    AlertName, Event, StoredWait,
    records::{AuditActor, CapSpan, ClaimCounts, ClaimLimits, ClaimOutcome, CloseRequest, KeyFacts, RenderedClaim},
    rules::{
        admission::{AdmissionDecision, admit, admit_without_table, decide_capped},
        contents::digest_contents,
        effective::EffectiveSettings,
        limit::{counts_from, limit_since},
    },
    settings::{DigestCap, DigestSettings, FrequencyLimits},
    step::{ClaimAnswer, ClaimInput, CloseAnswer},
    window::{DigestOutcome, WindowEnd},
};
use tidings_services::{
    deps::{StepServices, now_at_least},
    digest_email::{ComposeOutcome, DigestEmail},
    error::StepError,
};

use super::seen_elsewhere::seen_events;

/// Admits the window and claims its events within the recipient's cap. If the digest type is not configured,
/// the window waits (rule 33).
///
/// # Errors
/// If the store or the team's own directory fails, or only another worker has the digest type configured.
pub async fn run(deps: &StepServices, input: &ClaimInput) -> Result<ClaimAnswer, StepError> {
    let now = now_at_least(input.asked_at);
    let window = &input.window;
    let settings = deps.settings.digest(&window.key);
    let (facts, fresh) = if settings.is_some() {
        deps.facts_for_claim(window).await?
    } else {
        deps.leave_to_other_worker(&window.key).await?;
        (deps.kept_facts(&window.key).await?, false)
    };
    let admission = if let Some(settings) = settings {
        admit(settings, &limits(deps, settings, input), &facts, input, now)
    } else {
        let digest_type = window.key.digest_type.as_str();
        tracing::warn!(alert = %AlertName::UnknownDigestType, digest_type, "due window waits: its digest type is not configured");
        admit_without_table(&facts, input, now)
    };
    match admission {
        AdmissionDecision::Admitted => claim_admitted(deps, input, &facts, fresh, now).await,
        not_yet => claim_answer(deps, input, not_yet, now).await,
    }
}

async fn claim_answer(
    deps: &StepServices,
    input: &ClaimInput,
    admission: AdmissionDecision,
    now: Timestamp,
) -> Result<ClaimAnswer, StepError> {
    match admission {
        AdmissionDecision::Later { until, why, limit_ends_at } => {
            Ok(ClaimAnswer::Later { until, why, pause: None, limit_ends_at, unknown_since: None })
        }
        AdmissionDecision::Unknown { since, until, why } => {
            Ok(ClaimAnswer::Later { until, why, pause: None, limit_ends_at: None, unknown_since: Some(since) })
        }
        AdmissionDecision::Paused(pause) => Ok(ClaimAnswer::Later {
            until: pause.look_at,
            why: pause.paused.to_string(),
            pause: Some(pause),
            limit_ends_at: None,
            unknown_since: None,
        }),
        AdmissionDecision::Refused(closed) => end_refused(deps, input, &closed, now).await,
        AdmissionDecision::Changed | AdmissionDecision::Admitted => Ok(ClaimAnswer::Changed),
    }
}

fn limits(deps: &StepServices, settings: &DigestSettings, input: &ClaimInput) -> FrequencyLimits {
    input.limits.unwrap_or_else(|| deps.settings.frequency_limits(settings))
}

async fn claim_admitted(
    deps: &StepServices,
    input: &ClaimInput,
    facts: &KeyFacts,
    fresh: bool,
    now: Timestamp,
) -> Result<ClaimAnswer, StepError> {
    let limits = limits(deps, deps.digest_settings(&input.window.key)?, input);
    let seen = seen_events(deps, &input.window, &input.events, fresh).await?;
    let cap = limits.cap.filter(|_| !input.flushed && !input.urgent);
    if fresh
        && seen.is_empty()
        && cap.is_none()
        && let Some(answer) = claim_rendered(deps, input, &limits, facts, now).await?
    {
        return Ok(answer);
    }
    claim_events(deps, input, &ClaimTerms { limits, cap, seen }, facts, now).await
}

/// Claims a fresh window with its message. Returns `None` and writes nothing if this needs the ledger, or the
/// message fails.
async fn claim_rendered(
    deps: &StepServices,
    input: &ClaimInput,
    limits: &FrequencyLimits,
    facts: &KeyFacts,
    now: Timestamp,
) -> Result<Option<ClaimAnswer>, StepError> {
    let ClaimInput { events, planned, .. } = input;
    let Some(recipient) = &facts.recipient else { return Ok(None) };
    let window = &input.due_window();
    let settings = deps.digest_settings(&window.key)?;
    let off = settings.off_under_any_name(&facts.preferences.off);
    if events.is_empty() || events.iter().any(|event| off.contains(&event.category)) {
        return Ok(None);
    }
    if settings.category.leave_out(events, now) {
        return Ok(None);
    }
    let contents = digest_contents(events, now, settings.display_limits());
    let email = DigestEmail { window, facts, recipient, date: now, message_id: None };
    // `render` will report why the message cannot be composed.
    let Ok(ComposeOutcome::Message(message)) = email.compose(deps, &contents).await else { return Ok(None) };
    let slot_at = slot_at(input, limits, &EffectiveSettings::new(settings, facts, now), now);
    let claim = RenderedClaim { window, events, planned: planned.as_ref(), message: &message, slot_at, now };
    let claimed = deps.store.claim_rendered(claim).await?;
    let (items, groups) = (contents.items, contents.line_count);
    Ok(claimed.then_some(ClaimAnswer::Claimed { items, groups, taken: items, rendered: true }))
}

struct ClaimTerms {
    limits: FrequencyLimits,
    cap: Option<DigestCap>,
    seen: BTreeSet<String>,
}

async fn claim_events(
    deps: &StepServices,
    input: &ClaimInput,
    ClaimTerms { limits, cap, seen }: &ClaimTerms,
    facts: &KeyFacts,
    now: Timestamp,
) -> Result<ClaimAnswer, StepError> {
    let settings = deps.digest_settings(&input.window.key)?;
    let effective = EffectiveSettings::new(settings, facts, now);
    let span = |DigestCap { most, within }| CapSpan {
        most,
        since: limit_since(now, within, &effective.zone),
        until: StoredWait::PAST.latest_plausible(now),
    };
    let terms = ClaimLimits {
        cap: cap.map(span),
        slot_at: slot_at(input, limits, &effective, now),
        off: &settings.off_under_any_name(&facts.preferences.off),
        seen,
        categories: &settings.category,
        planned: input.planned.as_ref(),
    };
    match deps.store.claim(&input.due_window(), &input.events, &terms, now).await? {
        ClaimOutcome::Capped { oldest } => {
            claim_answer(deps, input, decide_capped(settings, limits, facts, input, oldest, now), now).await
        }
        ClaimOutcome::Claim(ClaimCounts { items, lines, taken, .. }) if items > 0 => {
            Ok(ClaimAnswer::Claimed { items, groups: lines, taken, rendered: false })
        }
        ClaimOutcome::Claim(claim) => {
            // Events not taken by the claim are not affected by this end.
            let CloseAnswer { closed, .. } = end_window(deps, input, &empty_end(&claim), &[], now).await?;
            Ok(ClaimAnswer::Nothing(CloseAnswer { closed, taken: claim.taken, returned: None }))
        }
    }
}

/// When the limits should count the digest, if not at its claim.
fn slot_at(
    input: &ClaimInput,
    limits: &FrequencyLimits,
    effective: &EffectiveSettings,
    now: Timestamp,
) -> Option<Timestamp> {
    let (EffectiveSettings { cadence, zone, .. }, due_at) = (effective, input.window.due_at);
    counts_from(cadence, due_at, limits.counted_end(cadence, due_at, input.limit_ended_at, zone), now)
}

async fn end_refused(
    deps: &StepServices,
    input: &ClaimInput,
    closed: &WindowEnd,
    now: Timestamp,
) -> Result<ClaimAnswer, StepError> {
    Ok(ClaimAnswer::Nothing(end_window(deps, input, closed, &input.events, now).await?))
}

async fn end_window(
    deps: &StepServices,
    input: &ClaimInput,
    closed: &WindowEnd,
    events: &[Event],
    now: Timestamp,
) -> Result<CloseAnswer, StepError> {
    let closing = CloseRequest {
        window: &input.window,
        events,
        closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: input.planned.as_ref(),
        now,
    };
    Ok(deps.store.close_digest(closing).await?)
}

fn empty_end(claim: &ClaimCounts) -> WindowEnd {
    let why = match claim.aside {
        0 => "every event was in an earlier digest",
        _ => "every event was retracted, opted out of, seen elsewhere, too old, too few, or in an earlier digest",
    };
    WindowEnd { outcome: DigestOutcome::Skipped, why: why.to_owned() }
}
