//! `send`: attempts to deliver the email of a digest once.

use std::pin::pin;

use jiff::Timestamp;
use tidings_mail::smtp::{AttemptOutcome, Lane};
use tidings_model::{
    attempt::AttemptClass,
    records::{Actor, Closing, Facts, Origin},
    rules::{effective::consent_or_suppression_block, pause},
    settings::{InForce, StreamName},
    step::{Closed, Outcome, Returned, SendInput, Sent, Window},
};

use super::render;
use crate::{
    alert,
    attempt::{Beginning, DeliveryAttempt, Outgoing, Shorter, waits_to_repeat},
    cancellable::Cancellable,
    deps::{Deps, now},
    error::Error,
};

/// Makes one attempt, and answers with what follows. The end of a digest that returned its events says which events of the key
/// wait for a window, also when an attempt is repeated whose answer was lost.
///
/// # Errors
/// The store cannot answer, or a later attempt has begun. Dropping the future past the dot leaves the attempt
/// ambiguous, as a crash does.
pub async fn run(
    deps: &Deps,
    input: &SendInput,
    cancelled: impl Future<Output = ()>,
) -> Result<Cancellable<Sent>, Error> {
    let mut sent = attempt(deps, input, cancelled).await?;
    if let Cancellable::Done(Sent::Closed { closed, returned }) = &mut sent
        && input.opens_returned
    {
        *returned = returned_by(deps, &input.window, closed).await?;
    }
    Ok(sent)
}

/// The events of the key that wait for a window, if the digest with this end returned some.
pub(super) async fn returned_by(deps: &Deps, window: &Window, closed: &Closed) -> Result<Option<Returned>, Error> {
    if closed.outcome != Outcome::Failed {
        return Ok(None);
    }
    let returned = deps.store.returned(&window.key).await?;
    Ok(returned.filter(|returned| returned.digests.contains_key(&window.digest_id)))
}

async fn attempt(
    deps: &Deps,
    input: &SendInput,
    cancelled: impl Future<Output = ()>,
) -> Result<Cancellable<Sent>, Error> {
    let SendInput { window, failed, asked_at, shortens, keeps_ends, unrecorded, .. } = input;
    let now = now(*asked_at);
    let InForce { stream, .. } = deps.settings.for_tenant(&window.key.tenant, StreamName::Bulk);
    let again_in = stream.retry_delay(failed.saturating_add(1));
    let outgoing = Outgoing {
        last: again_in.is_none(),
        keeps_ends: *keeps_ends,
        ..Outgoing::new(deps, &window.key.tenant, (stream, Lane::Digests), window.digest_id, now)
    };
    let in_time = |sent| match sent {
        Sent::Deferred { why, .. } => Sent::Deferred { why, again_in },
        other => other,
    };
    if let Some(unrecorded) = unrecorded {
        let is_too_large = *shortens && unrecorded.class == AttemptClass::TooLarge;
        let shorter = if is_too_large { Shorter::Asked(unrecorded.number) } else { Shorter::Never };
        return Ok(Cancellable::Done(in_time(outgoing.record_end(unrecorded, shorter).await?)));
    }
    let (facts, unattempted) = deps.store.facts_for_attempt(&window.key, window.digest_id).await?;
    let facts = deps.invented(&window.key, facts);
    let envelope_to = match &unattempted {
        Some(unattempted) => unattempted.message.envelope_to.clone(),
        None => deps.store.message(window.digest_id).await?.map(|message| message.envelope_to).unwrap_or_default(),
    };
    if let Some(closed) = blocked(deps, window, &facts, &envelope_to).await? {
        return Ok(Cancellable::Done(Sent::closed(close(deps, window, &closed, now).await?)));
    }
    if let Some(waiting) = paused(deps, window, &facts, now) {
        return Ok(Cancellable::Done(waiting));
    }
    let mut cancelled = pin!(cancelled);
    // A message can be made shorter while its attempt is under way only if the ledger has the attempt.
    let beginning = match unattempted.filter(|_| *shortens) {
        Some(unattempted) => outgoing.begin_first(unattempted, cancelled.as_mut()).await?,
        None => outgoing.begin(&envelope_to, cancelled.as_mut()).await?,
    };
    let mut attempt = match beginning {
        Beginning::Begun(attempt) => attempt,
        Beginning::NotBegun(sent) => return Ok(Cancellable::Done(sent)),
        Beginning::Cancelled => return Ok(Cancellable::Cancelled),
    };
    let delivery = attempt.transmit(cancelled).await?;
    let shorter = match delivery.class {
        AttemptClass::TooLarge if *shortens => Shorter::Asked(attempt.number),
        AttemptClass::TooLarge if shorten(deps, window, &attempt, &delivery).await? => Shorter::Stored,
        _ => Shorter::Never,
    };
    Ok(attempt.finish(&delivery, shorter).await?.map(in_time))
}

/// The end of a digest that must not be sent any more (rule 28). The message goes to the address for which it was
/// rendered, and the directory may have another address by now.
async fn blocked(deps: &Deps, window: &Window, facts: &Facts, envelope_to: &str) -> Result<Option<Closed>, Error> {
    if let Some(block) = consent_or_suppression_block(facts) {
        return Ok(Some(block.closed()));
    }
    if facts.recipient.as_ref().is_some_and(|recipient| recipient.address == envelope_to) {
        return Ok(None);
    }
    let reasons = deps.store.suppressed(&window.key.tenant, envelope_to).await?;
    let reason = reasons.into_iter().find(|reason| reason.forbids(StreamName::Bulk));
    let why = |reason| format!("the address that it was rendered for is suppressed: {reason}");
    Ok(reason.map(|reason| Closed { outcome: Outcome::Suppressed, why: why(reason) }))
}

/// The answer while an operator's pause covers the key (rule 35). A digest type that is gone has no spread.
fn paused(deps: &Deps, window: &Window, facts: &Facts, now: Timestamp) -> Option<Sent> {
    let spread = deps.settings.digest(&window.key).and_then(|settings| settings.spread);
    let pause = pause::wait(facts.pause.as_ref(), &window.key.workflow_id(), spread, now)?;
    Some(Sent::Waiting { until: pause.look_at, why: pause.paused.to_string(), pause: Some(pause), too_large: None })
}

async fn close(deps: &Deps, window: &Window, closed: &Closed, now: Timestamp) -> Result<Closed, Error> {
    let closing = Closing { window, events: &[], closed, by: Actor::Tidings, return_events: false, planned: None, now };
    let closed = deps.store.close(closing).await?.closed;
    alert::ended(window.digest_id, &Origin::Digest(window.key.clone()), &closed);
    Ok(closed)
}

/// Replaces an email that the relay found too large by a shorter one, while the attempt is under way: for a workflow that does
/// not have a shorter one made, or whose worker of an earlier version did not make one. A failure to render does not keep the
/// attempt from being recorded.
async fn shorten(
    deps: &Deps,
    window: &Window,
    attempt: &DeliveryAttempt<'_>,
    delivery: &AttemptOutcome,
) -> Result<bool, Error> {
    let (number, message) = (attempt.number, &attempt.message);
    loop {
        let shortened = render::shorten(deps, window, number, &message.envelope_to, message.created_at).await;
        if !waits_to_repeat(delivery, &shortened).await {
            return shortened;
        }
    }
}
