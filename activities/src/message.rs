//! Activities for single messages, from the outbox on.

use std::{pin::pin, sync::Arc};

use jiff::Timestamp;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_mail::smtp::SendLane;
use tidings_model::{
    command::CommandContext,
    message::contract::{AttemptResult, MessageCloseInput, MessageSendInput, RetryInput, RetryResult},
    records::{AuditActor, MessageRecord},
    rules::pause,
    settings::{StreamName, TenantStream},
    step::SendAnswer,
    window::{DigestOutcome, WindowEnd},
};
use tidings_services::{
    deps::{StepServices, now_at_least},
    error::{StepError, activity_result},
    metrics,
};
use tidings_workflows::activities::definitions::message as definitions;

use crate::{
    attempt::{AttemptBeginning, OutgoingMessage, ShorterMessage},
    context::{CancellableResult, unless_ahead, with_heartbeats},
};

pub(crate) mod remake;

use remake::follow_configuration;

/// Records the end, and returns the one recorded first.
///
/// # Errors
/// If the store fails.
pub async fn close(deps: &StepServices, input: &MessageCloseInput) -> Result<WindowEnd, StepError> {
    let MessageCloseInput { asked_at, key, order } = input;
    let (by, why) = match order {
        Some(CommandContext { by, why }) => (AuditActor::of_login(by), why.clone()),
        None => (AuditActor::Tidings, "cancelled".to_owned()),
    };
    let closed = WindowEnd { outcome: DigestOutcome::Dropped, why };
    Ok(deps.store.close_message(key, &closed, by, now_at_least(*asked_at)).await?.unwrap_or_else(missing_end))
}

fn missing_end() -> WindowEnd {
    WindowEnd { outcome: DigestOutcome::Failed, why: "the outbox has no such message".to_owned() }
}

/// Queues the message again, or rejects this with a reason.
///
/// # Errors
/// If the store fails.
pub async fn retry(deps: &StepServices, input: &RetryInput) -> Result<RetryResult, StepError> {
    Ok(deps.store.retry_message(input, now_at_least(input.asked_at)).await?)
}

pub struct MessageActivities {
    pub deps: StepServices,
}

#[activities]
impl MessageActivities {
    /// Attempts to deliver the message once.
    ///
    /// # Errors
    /// If the store fails, or a later attempt has begun: Temporal will retry. Or if the attempt was cancelled
    /// before it was committed.
    #[activity(definition = definitions::Send)]
    pub async fn send(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: MessageSendInput,
    ) -> Result<AttemptResult, ActivityError> {
        let sent = Box::pin(send(&self.deps, &input, ctx.cancelled()));
        activity_result(unless_ahead(&ctx, Some(input.asked_at), with_heartbeats(&ctx, sent)).await)?.into_activity()
    }

    /// Ends a cancelled message.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Close)]
    pub async fn close(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: MessageCloseInput,
    ) -> Result<WindowEnd, ActivityError> {
        activity_result(close(&self.deps, &input).await)
    }

    /// Returns an ended message to its workflow.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry.
    #[activity(definition = definitions::Retry)]
    pub async fn retry(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: RetryInput,
    ) -> Result<RetryResult, ActivityError> {
        activity_result(retry(&self.deps, &input).await)
    }
}

/// Makes one attempt and returns what follows.
///
/// # Errors
/// If the store fails, or a later attempt has begun.
pub async fn send(
    deps: &StepServices,
    input: &MessageSendInput,
    cancelled: impl Future<Output = ()>,
) -> Result<CancellableResult<AttemptResult>, StepError> {
    let id = input.key.message_id();
    let Some(message) = deps.store.message(id).await? else {
        return Ok(CancellableResult::Done(AttemptResult {
            sent: SendAnswer::closed(missing_end()),
            delays: Vec::new(),
        }));
    };
    let now = now_at_least(input.asked_at);
    let TenantStream { stream, .. } = deps.settings.for_tenant(&input.key.tenant, message.stream);
    let delays = input.delays.clone().unwrap_or_else(|| stream.retry_delays.clone());
    let outgoing = OutgoingMessage {
        last: usize::try_from(input.failed).is_ok_and(|failed| failed >= delays.len()),
        keeps_ends: input.keeps_ends,
        ..OutgoingMessage::new(deps, &input.key.tenant, (stream, lane(message.stream)), id, now)
    };
    let retry_delay = delays.first().copied().unwrap_or(outgoing.retry_delay);
    let outgoing = OutgoingMessage { retry_delay, ..outgoing };
    if let Some(unrecorded) = &input.unrecorded {
        let sent = outgoing.record_end(unrecorded, ShorterMessage::Never).await?;
        return Ok(CancellableResult::Done(AttemptResult { sent, delays }));
    }
    if let Some(closed) = end_if_suppressed(deps, input, &message, now).await? {
        return Ok(CancellableResult::Done(AttemptResult { sent: SendAnswer::closed(closed), delays }));
    }
    if let Some(sent) = wait_for_pause(deps, input, now).await? {
        return Ok(CancellableResult::Done(AttemptResult { sent, delays }));
    }
    follow_configuration(deps, &message, now).await?;
    let mut cancelled = pin!(cancelled);
    let sent = match outgoing.begin(&message.envelope_to, None, cancelled.as_mut()).await? {
        AttemptBeginning::NotBegun(sent) => CancellableResult::Done(sent),
        AttemptBeginning::Cancelled => CancellableResult::Cancelled,
        AttemptBeginning::Begun(mut attempt) => {
            let delivery = attempt.transmit(cancelled).await?;
            // We cannot shorten a single message, since its sender wrote it.
            attempt.finish(&delivery, ShorterMessage::Never).await?
        }
    };
    Ok(sent.map(|sent| AttemptResult { sent, delays }))
}

const fn lane(stream: StreamName) -> SendLane {
    match stream {
        StreamName::Transactional => SendLane::Transactional,
        StreamName::Bulk => SendLane::Bulk,
    }
}

/// Ends the message if its address was suppressed after we accepted it (rule 28).
async fn end_if_suppressed(
    deps: &StepServices,
    input: &MessageSendInput,
    message: &MessageRecord,
    now: Timestamp,
) -> Result<Option<WindowEnd>, StepError> {
    let reasons = deps.store.suppression_reasons(&input.key.tenant, &message.envelope_to).await?;
    let Some(reason) = reasons.into_iter().find(|reason| reason.forbids(message.stream)) else { return Ok(None) };
    let closed = WindowEnd { outcome: DigestOutcome::Suppressed, why: format!("the address is suppressed: {reason}") };
    let closed = deps.store.close_message(&input.key, &closed, AuditActor::Tidings, now).await?.unwrap_or(closed);
    metrics::alert_ended(message.id, &message.origin, &closed);
    Ok(Some(closed))
}

/// Waits while an operator's pause covers the tenant's messages (rule 35).
async fn wait_for_pause(
    deps: &StepServices,
    input: &MessageSendInput,
    now: Timestamp,
) -> Result<Option<SendAnswer>, StepError> {
    let paused = deps.store.pause_of_messages(&input.key.tenant).await?;
    let pause = pause::pause_wait(paused.as_ref(), &input.key.workflow_id(), None, now);
    Ok(pause.map(|pause| SendAnswer::Waiting {
        until: pause.look_at,
        why: pause.paused.to_string(),
        pause: Some(pause),
        too_large: None,
        moment: false,
    }))
}
