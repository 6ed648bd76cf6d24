//! Activities for single messages, from the outbox on.

use std::{pin::pin, sync::Arc};

use jiff::Timestamp;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_mail::smtp::Lane;
use tidings_model::{
    command::Order,
    message::contract::{Attempted, CloseInput, Retried, RetryInput, SendInput},
    records::{Actor, MessageRecord},
    rules::pause,
    settings::{InForce, StreamName},
    step::Sent,
    window::{Closed, Outcome},
};
use tidings_services::{
    deps::{Deps, now},
    error::{Error, answer},
    metrics,
};
use tidings_workflows::activities::definitions::message as definitions;

use crate::{
    attempt::{Beginning, Outgoing, Shorter},
    context::{Cancellable, during, unless_ahead},
};

pub(crate) mod remake;

use remake::follow_configuration;

/// Records the end, and returns the one recorded first.
///
/// # Errors
/// If the store fails.
pub async fn close(deps: &Deps, input: &CloseInput) -> Result<Closed, Error> {
    let CloseInput { asked_at, key, order } = input;
    let (by, why) = match order {
        Some(Order { by, why }) => (Actor::of_login(by), why.clone()),
        None => (Actor::Tidings, "cancelled".to_owned()),
    };
    let closed = Closed { outcome: Outcome::Dropped, why };
    Ok(deps.store.close_message(key, &closed, by, now(*asked_at)).await?.unwrap_or_else(missing))
}

fn missing() -> Closed {
    Closed { outcome: Outcome::Failed, why: "the outbox has no such message".to_owned() }
}

/// Queues the message again, or rejects this with a reason.
///
/// # Errors
/// If the store fails.
pub async fn retry(deps: &Deps, input: &RetryInput) -> Result<Retried, Error> {
    Ok(deps.store.retry_message(input, now(input.asked_at)).await?)
}

pub struct MessageActivities {
    pub deps: Deps,
}

#[activities]
impl MessageActivities {
    /// Attempts to deliver the message once.
    ///
    /// # Errors
    /// If the store fails, or a later attempt has begun: Temporal will retry. Or if the attempt was cancelled
    /// before it was committed.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Attempted, ActivityError> {
        let sent = Box::pin(send(&self.deps, &input, ctx.cancelled()));
        answer(unless_ahead(&ctx, Some(input.asked_at), during(&ctx, sent)).await)?.into_activity()
    }

    /// Ends a cancelled message.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Closed, ActivityError> {
        answer(close(&self.deps, &input).await)
    }

    /// Returns an ended message to its workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Retry)]
    pub async fn retry(self: Arc<Self>, _ctx: ActivityContext, input: RetryInput) -> Result<Retried, ActivityError> {
        answer(retry(&self.deps, &input).await)
    }
}

/// Makes one attempt and returns what follows.
///
/// # Errors
/// If the store fails, or a later attempt has begun.
pub async fn send(
    deps: &Deps,
    input: &SendInput,
    cancelled: impl Future<Output = ()>,
) -> Result<Cancellable<Attempted>, Error> {
    let id = input.key.message_id();
    let Some(message) = deps.store.message(id).await? else {
        return Ok(Cancellable::Done(Attempted { sent: Sent::closed(missing()), delays: Vec::new() }));
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
            // We cannot shorten a single message, since its sender wrote it.
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

/// Ends the message if its address was suppressed after we accepted it (rule 28).
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
    metrics::alert_ended(message.id, &message.origin, &closed);
    Ok(Some(closed))
}

/// Waits while an operator's pause covers the tenant's messages (rule 35).
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
