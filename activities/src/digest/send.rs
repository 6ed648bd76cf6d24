//! `send`: attempts to deliver a digest's email once.

use std::{pin::pin, time::Duration};

use jiff::Timestamp;
use tidings_mail::smtp::{AttemptOutcome, SendLane};
use tidings_model::{
    attempt::AttemptClass,
    records::{AuditActor, CloseRequest, KeyFacts, MessageOrigin, OutboxMessage, WaitingMessage},
    rules::{
        deadline::{Deadline, DeadlineTiming},
        effective::{EffectiveSettings, consent_or_suppression_block},
        pause::{self, LOOK_AGAIN_AFTER},
    },
    settings::{StreamName, TenantStream},
    step::{ReturnedEvents, SendAnswer, SendDigestInput},
    window::{DigestOutcome, SendMoment, WaitReason, Window, WindowEnd},
};
use tidings_services::{
    deps::{StepServices, now_at_least},
    error::StepError,
    metrics,
};

use super::{
    remake::{RemakeOutcome, follow_changes},
    render,
};
use crate::{
    attempt::{AttemptBeginning, DeliveryAttempt, OutgoingMessage, ShorterMessage, is_unavailable, waits_to_repeat},
    context::CancellableResult,
};

/// Makes one attempt and returns what follows. If the digest returns its events, the result lists the key's
/// waiting events, even for a repeated attempt.
///
/// # Errors
/// If the store fails, or a later attempt has begun. Dropping the future after the commit leaves the attempt
/// ambiguous, like a crash.
pub async fn run(
    deps: &StepServices,
    input: &SendDigestInput,
    cancelled: impl Future<Output = ()>,
) -> Result<CancellableResult<SendAnswer>, StepError> {
    let mut sent = make_attempt(deps, input, cancelled).await?;
    if let CancellableResult::Done(SendAnswer::Closed { closed, returned }) = &mut sent
        && input.opens_returned
    {
        *returned = returned_by(deps, &input.window, closed).await?;
    }
    Ok(sent)
}

pub(super) async fn returned_by(
    deps: &StepServices,
    window: &Window,
    closed: &WindowEnd,
) -> Result<Option<ReturnedEvents>, StepError> {
    if closed.outcome != DigestOutcome::Failed {
        return Ok(None);
    }
    let returned = deps.store.returned_events(&window.key).await?;
    Ok(returned.filter(|returned| returned.digests.contains_key(&window.digest_id)))
}

async fn make_attempt(
    deps: &StepServices,
    input: &SendDigestInput,
    cancelled: impl Future<Output = ()>,
) -> Result<CancellableResult<SendAnswer>, StepError> {
    let SendDigestInput { window, failed, asked_at, shortens, keeps_ends, unrecorded, .. } = input;
    let now = now_at_least(*asked_at);
    let TenantStream { stream, .. } = deps.settings.for_tenant(&window.key.tenant, StreamName::Bulk);
    let again_in = stream.retry_delay(failed.saturating_add(1));
    let outgoing = OutgoingMessage {
        last: again_in.is_none(),
        keeps_ends: *keeps_ends,
        ..OutgoingMessage::new(deps, &window.key.tenant, (stream, SendLane::Digests), window.digest_id, now)
    };
    if let Some(unrecorded) = unrecorded {
        let is_too_large = *shortens && unrecorded.class == AttemptClass::TooLarge;
        let shorter = if is_too_large { ShorterMessage::Asked(unrecorded.number) } else { ShorterMessage::Never };
        return Ok(CancellableResult::Done(in_time(outgoing.record_end(unrecorded, shorter).await?, again_in)));
    }
    if deps.settings.digest(&window.key).is_none() {
        // The other worker has the quiet hours, and can render the message again if needed.
        deps.leave_to_other_worker(&window.key).await?;
    }
    let (facts, waiting) = deps.facts_for_attempt(window).await?;
    let made_for = match &waiting {
        Some(waiting) => waiting.message.envelope_to.clone(),
        None => deps.store.message(window.digest_id).await?.map(|message| message.envelope_to).unwrap_or_default(),
    };
    // Until a commit, the message follows the recipient to a new address. We need the digest type's table to
    // render it.
    let moves = waiting.is_some() && deps.settings.digest(&window.key).is_some();
    if let Some(closed) = blocked_end(deps, window, &facts, (!moves).then_some(&*made_for)).await? {
        return Ok(CancellableResult::Done(SendAnswer::closed(close(deps, window, &closed, now).await?)));
    }
    if let Some(waiting) = wait_for_pause(deps, window, &facts, now).or_else(|| put_off(deps, input, &facts, now)) {
        return Ok(CancellableResult::Done(waiting));
    }
    let waiting = match waiting {
        Some(waiting) => match follow_changes(deps, &outgoing, window, &facts, waiting).await? {
            RemakeOutcome::Message(waiting) => waiting,
            RemakeOutcome::Nothing(closed) => {
                return Ok(CancellableResult::Done(SendAnswer::closed(close(deps, window, &closed, now).await?)));
            }
            RemakeOutcome::NotNow(sent) => return Ok(CancellableResult::Done(sent)),
        },
        None => None,
    };
    let mut cancelled = pin!(cancelled);
    let beginning = match waiting {
        // Combine start and commit only if the workflow schedules a shorter message. Otherwise the ledger
        // must have the attempt first.
        Some(WaitingMessage { message, epoch, attempted: false, .. }) if *shortens => {
            outgoing.begin_first(message, epoch, cancelled.as_mut()).await?
        }
        Some(WaitingMessage { message, epoch, .. }) => {
            outgoing.begin(&message.envelope_to, Some(epoch), cancelled.as_mut()).await?
        }
        None => outgoing.begin(&made_for, None, cancelled.as_mut()).await?,
    };
    let mut attempt = match beginning {
        AttemptBeginning::Begun(attempt) => attempt,
        AttemptBeginning::NotBegun(sent) => return Ok(CancellableResult::Done(sent)),
        AttemptBeginning::Cancelled => return Ok(CancellableResult::Cancelled),
    };
    let delivery = attempt.transmit(cancelled).await?;
    let shorter = match delivery.class {
        AttemptClass::TooLarge if *shortens => ShorterMessage::Asked(attempt.number),
        AttemptClass::TooLarge if shorten_message(deps, window, &attempt, &delivery).await? => ShorterMessage::Stored,
        _ => ShorterMessage::Never,
    };
    Ok(attempt.finish(&delivery, shorter).await?.map(|sent| in_time(sent, again_in)))
}

fn in_time(sent: SendAnswer, again_in: Option<Duration>) -> SendAnswer {
    match sent {
        SendAnswer::Deferred { why, .. } => SendAnswer::Deferred { why, again_in },
        other => other,
    }
}

/// Waits while the recipient has paused, or if a wait ended at a bad time (rule 56). As for a claim, nothing
/// bypasses a pause, and instant digests go out right at its end.
fn put_off(deps: &StepServices, input: &SendDigestInput, facts: &KeyFacts, now: Timestamp) -> Option<SendAnswer> {
    let wait = input.after.filter(|wait| wait.send_moment() != SendMoment::AtOnce);
    let waiting = |until, why, moment| Some(SendAnswer::Waiting { until, why, pause: None, too_large: None, moment });
    if let Some(until) = facts.preferences.paused_until.filter(|until| *until > now) {
        let why = format!("paused until {until:.0}");
        if wait.is_none() {
            // This workflow does not wait for a time, so check again earlier in case the recipient ends the
            // pause.
            return waiting(until.min(add_wait(now, LOOK_AGAIN_AFTER)), why, false);
        }
        return match next_moment(deps, &input.window, facts, WaitReason::PauseOfRecipient, until) {
            Some(Deadline { at, why: step }) => waiting(at, format!("{why}; {step}"), true),
            None => waiting(until, why, true),
        };
    }
    let wait = wait?;
    let Deadline { at, why } = next_moment(deps, &input.window, facts, wait, now)?;
    waiting(at, format!("waited for {}; {why}", wait.wait_phrase()), true)
}

fn add_wait(at: Timestamp, wait: Duration) -> Timestamp {
    at.saturating_add(wait).unwrap_or(Timestamp::MAX)
}

/// Returns the next good time if `from` is a bad one. A digest type no longer configured has no quiet hours.
fn next_moment(
    deps: &StepServices,
    window: &Window,
    facts: &KeyFacts,
    wait: WaitReason,
    from: Timestamp,
) -> Option<Deadline> {
    let settings = deps.settings.digest(&window.key)?;
    let effective = EffectiveSettings::new(settings, facts, from);
    DeadlineTiming::new(settings, &window.key, &effective).put_off(&effective.cadence, wait, window.due_at, from)
}

/// Ends a digest which must not be sent any more (rule 28). After a commit the message keeps its address.
async fn blocked_end(
    deps: &StepServices,
    window: &Window,
    facts: &KeyFacts,
    made_for: Option<&str>,
) -> Result<Option<WindowEnd>, StepError> {
    if let Some(block) = consent_or_suppression_block(facts) {
        return Ok(Some(block.window_end()));
    }
    let Some(made_for) = made_for else { return Ok(None) };
    if facts.recipient.as_ref().is_some_and(|recipient| recipient.address == made_for) {
        return Ok(None);
    }
    let reasons = deps.store.suppression_reasons(&window.key.tenant, made_for).await?;
    let reason = reasons.into_iter().find(|reason| reason.forbids(StreamName::Bulk));
    let why = |reason| format!("the address that it was made for is suppressed: {reason}");
    Ok(reason.map(|reason| WindowEnd { outcome: DigestOutcome::Suppressed, why: why(reason) }))
}

/// Waits while an operator's pause covers the key (rule 35). A digest type no longer configured has no
/// spread.
fn wait_for_pause(deps: &StepServices, window: &Window, facts: &KeyFacts, now: Timestamp) -> Option<SendAnswer> {
    let spread = deps.settings.digest(&window.key).and_then(|settings| settings.spread);
    let pause = pause::pause_wait(facts.pause.as_ref(), &window.key.workflow_id(), spread, now)?;
    Some(SendAnswer::Waiting {
        until: pause.look_at,
        why: pause.paused.to_string(),
        pause: Some(pause),
        too_large: None,
        moment: false,
    })
}

async fn close(
    deps: &StepServices,
    window: &Window,
    closed: &WindowEnd,
    now: Timestamp,
) -> Result<WindowEnd, StepError> {
    let closing =
        CloseRequest { window, events: &[], closed, by: AuditActor::Tidings, return_events: false, planned: None, now };
    let closed = deps.store.close_digest(closing).await?.closed;
    metrics::alert_ended(window.digest_id, &MessageOrigin::Digest(window.key.clone()), &closed);
    Ok(closed)
}

/// Shortens an email during the attempt, for workflows started by an older version. If rendering fails, the
/// attempt is still recorded.
async fn shorten_message(
    deps: &StepServices,
    window: &Window,
    attempt: &DeliveryAttempt<'_>,
    delivery: &AttemptOutcome,
) -> Result<bool, StepError> {
    let (number, message) = (attempt.number, &attempt.message);
    loop {
        let OutboxMessage { envelope_to: address, message_id, made_at: date, .. } = &**message;
        let large = render::OversizedEmail { address, message_id, date: *date };
        let shortened = render::shorten_email(deps, window, number, large, is_unavailable).await;
        if !waits_to_repeat(delivery, &shortened).await {
            return shortened;
        }
    }
}
