//! `message_send`: attempts to deliver a single message once.

use std::pin::pin;

use jiff::Timestamp;
use tidings_mail::smtp::Lane;
use tidings_model::{
    message::contract::{Attempted, SendInput},
    records::{Actor, MessageRecord},
    rules::pause,
    settings::{InForce, StreamName},
    step::Sent,
    window::{Closed, Outcome},
};

use super::remake::follow_configuration;
use crate::{
    alert,
    attempt::{Beginning, Outgoing, Shorter},
    cancellable::Cancellable,
    deps::{Deps, now},
    error::Error,
};

/// Makes one attempt, and answers with what follows.
///
/// # Errors
/// The store cannot answer, or a later attempt has begun.
pub async fn run(
    deps: &Deps,
    input: &SendInput,
    cancelled: impl Future<Output = ()>,
) -> Result<Cancellable<Attempted>, Error> {
    let id = input.key.message_id();
    let Some(message) = deps.store.message(id).await? else {
        return Ok(Cancellable::Done(Attempted { sent: Sent::closed(super::close::missing()), delays: Vec::new() }));
    };
    let now = now(input.asked_at);
    let InForce { stream, .. } = deps.settings.for_tenant(&input.key.tenant, message.stream);
    let delays = input.delays.clone().unwrap_or_else(|| stream.retry_delays.clone());
    let outgoing = Outgoing {
        last: usize::try_from(input.failed).is_ok_and(|failed| failed >= delays.len()),
        keeps_ends: input.keeps_ends,
        ..Outgoing::new(deps, &input.key.tenant, (stream, lane(message.stream)), id, now)
    };
    let retry_delay = delays.first().copied().unwrap_or(outgoing.retry_delay);
    let outgoing = Outgoing { retry_delay, ..outgoing };
    if let Some(unrecorded) = &input.unrecorded {
        let sent = outgoing.record_end(unrecorded, Shorter::Never).await?;
        return Ok(Cancellable::Done(Attempted { sent, delays }));
    }
    if let Some(closed) = suppressed(deps, input, &message, now).await? {
        return Ok(Cancellable::Done(Attempted { sent: Sent::closed(closed), delays }));
    }
    if let Some(sent) = paused(deps, input, now).await? {
        return Ok(Cancellable::Done(Attempted { sent, delays }));
    }
    follow_configuration(deps, &message, now).await?;
    let mut cancelled = pin!(cancelled);
    let sent = match outgoing.begin(&message.envelope_to, None, cancelled.as_mut()).await? {
        Beginning::NotBegun(sent) => Cancellable::Done(sent),
        Beginning::Cancelled => Cancellable::Cancelled,
        Beginning::Begun(mut attempt) => {
            let delivery = attempt.transmit(cancelled).await?;
            // A single message cannot be shortened: its sender wrote it.
            attempt.finish(&delivery, Shorter::Never).await?
        }
    };
    Ok(sent.map(|sent| Attempted { sent, delays }))
}

const fn lane(stream: StreamName) -> Lane {
    match stream {
        StreamName::Transactional => Lane::Transactional,
        StreamName::Bulk => Lane::Bulk,
    }
}

/// Ends the message if its address was suppressed after it was accepted (rule 28).
async fn suppressed(
    deps: &Deps,
    input: &SendInput,
    message: &MessageRecord,
    now: Timestamp,
) -> Result<Option<Closed>, Error> {
    let reasons = deps.store.suppressed(&input.key.tenant, &message.envelope_to).await?;
    let Some(reason) = reasons.into_iter().find(|reason| reason.forbids(message.stream)) else { return Ok(None) };
    let closed = Closed { outcome: Outcome::Suppressed, why: format!("the address is suppressed: {reason}") };
    let closed = deps.store.close_message(&input.key, &closed, Actor::Tidings, now).await?.unwrap_or(closed);
    alert::ended(message.id, &message.origin, &closed);
    Ok(Some(closed))
}

/// The answer while an operator's pause covers the messages of the tenant (rule 35).
async fn paused(deps: &Deps, input: &SendInput, now: Timestamp) -> Result<Option<Sent>, Error> {
    let paused = deps.store.pause_of_messages(&input.key.tenant).await?;
    let pause = pause::wait(paused.as_ref(), &input.key.workflow_id(), None, now);
    Ok(pause.map(|pause| Sent::Waiting {
        until: pause.look_at,
        why: pause.paused.to_string(),
        pause: Some(pause),
        too_large: None,
        moment: false,
    }))
}
