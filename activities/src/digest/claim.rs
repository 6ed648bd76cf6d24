//! `claim`: claims a due window's events, defers the window, or ends it.
//!
//! For an ordinary window this also stores the message: the digest is new, and the input contains all its
//! events. Otherwise the ledger does the claim, since it may have more events, and `render` makes the
//! message. The same applies if the recipient has already seen an event.

use std::collections::BTreeSet;

use jiff::Timestamp;
use tidings_model::{
    Alert, Event, StoredWait,
    records::{Actor, CapSpan, Claim, ClaimLimits, Claimed, Closing, Facts, RenderedClaim},
    rules::{
        admission::{Admission, admit, admit_without_table, capped},
        contents::contents,
        effective::Effective,
        limit::{counts_from, limit_since},
    },
    settings::{Cap, DigestSettings, FrequencyLimits},
    step::{ClaimAnswer, ClaimInput, Ending},
    window::{Closed, Outcome},
};
use tidings_services::{
    deps::{Deps, now},
    digest_email::{Composed, Email},
    error::Error,
};

use super::seen::seen_events;

/// Admits the window and claims its events within the recipient's cap. If the digest type is not configured,
/// the window waits (rule 33).
///
/// # Errors
/// If the store or the team's own directory fails, or only another worker has the digest type configured.
pub async fn run(deps: &Deps, input: &ClaimInput) -> Result<ClaimAnswer, Error> {
    let now = now(input.asked_at);
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
        tracing::warn!(alert = %Alert::UnknownDigestType, digest_type, "a due window waits: no table has its digest type");
        admit_without_table(&facts, input, now)
    };
    match admission {
        Admission::Admitted => admitted(deps, input, &facts, fresh, now).await,
        not_yet => answer(deps, input, not_yet, now).await,
    }
}

async fn answer(deps: &Deps, input: &ClaimInput, admission: Admission, now: Timestamp) -> Result<ClaimAnswer, Error> {
    match admission {
        Admission::Later { until, why, limit_ends_at } => {
            Ok(ClaimAnswer::Later { until, why, pause: None, limit_ends_at, unknown_since: None })
        }
        Admission::Unknown { since, until, why } => {
            Ok(ClaimAnswer::Later { until, why, pause: None, limit_ends_at: None, unknown_since: Some(since) })
        }
        Admission::Paused(pause) => Ok(ClaimAnswer::Later {
            until: pause.look_at,
            why: pause.paused.to_string(),
            pause: Some(pause),
            limit_ends_at: None,
            unknown_since: None,
        }),
        Admission::Refused(closed) => refuse(deps, input, &closed, now).await,
        Admission::Changed | Admission::Admitted => Ok(ClaimAnswer::Changed),
    }
}

fn limits(deps: &Deps, settings: &DigestSettings, input: &ClaimInput) -> FrequencyLimits {
    input.limits.unwrap_or_else(|| deps.settings.frequency_limits(settings))
}

async fn admitted(
    deps: &Deps,
    input: &ClaimInput,
    facts: &Facts,
    fresh: bool,
    now: Timestamp,
) -> Result<ClaimAnswer, Error> {
    let limits = limits(deps, deps.digest(&input.window.key)?, input);
    let seen = seen_events(deps, &input.window, &input.events, fresh).await?;
    let cap = limits.cap.filter(|_| !input.flushed && !input.urgent);
    if fresh
        && seen.is_empty()
        && cap.is_none()
        && let Some(answer) = claim_rendered(deps, input, &limits, facts, now).await?
    {
        return Ok(answer);
    }
    claim(deps, input, &Terms { limits, cap, seen }, facts, now).await
}

/// Claims a fresh window with its message. Returns `None` and writes nothing if this needs the ledger, or the
/// message fails.
async fn claim_rendered(
    deps: &Deps,
    input: &ClaimInput,
    limits: &FrequencyLimits,
    facts: &Facts,
    now: Timestamp,
) -> Result<Option<ClaimAnswer>, Error> {
    let ClaimInput { events, planned, .. } = input;
    let Some(recipient) = &facts.recipient else { return Ok(None) };
    let window = &input.due_window();
    let settings = deps.digest(&window.key)?;
    let off = settings.off_under_any_name(&facts.preferences.off);
    if events.is_empty() || events.iter().any(|event| off.contains(&event.category)) {
        return Ok(None);
    }
    if settings.category.leave_out(events, now) {
        return Ok(None);
    }
    let contents = contents(events, now, settings.shown());
    let email = Email { window, facts, recipient, date: now, message_id: None };
    // `render` will report why the message cannot be composed.
    let Ok(Composed::Message(message)) = email.compose(deps, &contents).await else { return Ok(None) };
    let slot_at = slot_at(input, limits, &Effective::new(settings, facts, now), now);
    let claim = RenderedClaim { window, events, planned: planned.as_ref(), message: &message, slot_at, now };
    let claimed = deps.store.claim_rendered(claim).await?;
    let (items, groups) = (contents.items, contents.groups);
    Ok(claimed.then_some(ClaimAnswer::Claimed { items, groups, taken: items, rendered: true }))
}

struct Terms {
    limits: FrequencyLimits,
    cap: Option<Cap>,
    seen: BTreeSet<String>,
}

async fn claim(
    deps: &Deps,
    input: &ClaimInput,
    Terms { limits, cap, seen }: &Terms,
    facts: &Facts,
    now: Timestamp,
) -> Result<ClaimAnswer, Error> {
    let settings = deps.digest(&input.window.key)?;
    let effective = Effective::new(settings, facts, now);
    let span = |Cap { most, within }| CapSpan {
        most,
        since: limit_since(now, within, &effective.zone),
        until: StoredWait::PAST.farthest(now),
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
        Claimed::Capped { oldest } => {
            answer(deps, input, capped(settings, limits, facts, input, oldest, now), now).await
        }
        Claimed::Claim(Claim { items, groups, taken, .. }) if items > 0 => {
            Ok(ClaimAnswer::Claimed { items, groups, taken, rendered: false })
        }
        Claimed::Claim(claim) => {
            // Events not taken by the claim are not affected by this end.
            let Ending { closed, .. } = close(deps, input, &empty(&claim), &[], now).await?;
            Ok(ClaimAnswer::Nothing(Ending { closed, taken: claim.taken, returned: None }))
        }
    }
}

/// Returns when the limits should count the digest, if not at its claim.
fn slot_at(input: &ClaimInput, limits: &FrequencyLimits, effective: &Effective, now: Timestamp) -> Option<Timestamp> {
    let (Effective { cadence, zone, .. }, due_at) = (effective, input.window.due_at);
    counts_from(cadence, due_at, limits.counted_end(cadence, due_at, input.limit_ended_at, zone), now)
}

async fn refuse(deps: &Deps, input: &ClaimInput, closed: &Closed, now: Timestamp) -> Result<ClaimAnswer, Error> {
    Ok(ClaimAnswer::Nothing(close(deps, input, closed, &input.events, now).await?))
}

async fn close(
    deps: &Deps,
    input: &ClaimInput,
    closed: &Closed,
    events: &[Event],
    now: Timestamp,
) -> Result<Ending, Error> {
    let closing = Closing {
        window: &input.window,
        events,
        closed,
        by: Actor::Tidings,
        return_events: false,
        planned: input.planned.as_ref(),
        now,
    };
    Ok(deps.store.close(closing).await?)
}

fn empty(claim: &Claim) -> Closed {
    let why = match claim.aside {
        0 => "every event was in an earlier digest",
        _ => "every event was retracted, opted out of, seen elsewhere, too old, too few, or in an earlier digest",
    };
    Closed { outcome: Outcome::Skipped, why: why.to_owned() }
}
