//! The activities of the message workflow: what happens to a single message once it is in the outbox.

use std::sync::Arc;

use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_mail::mailer::Delivery;
use tidings_model::{
    contract::{Closed, Outcome, Sent},
    message::contract::{Attempted, CloseInput, Retried, RetryInput, SendInput},
    records::Message,
    settings::Settings,
};
use tidings_store::Store;
use tidings_workflows::message::activities::definitions;

use crate::{
    alert,
    digest::{Error, heartbeat, now},
    relays::Relays,
    send::Courier,
};

/// What they work with.
pub struct MessageActivities {
    /// Where everything is remembered.
    pub store: Arc<dyn Store>,
    /// Take the messages.
    pub relays: Arc<Relays>,
    /// The configuration.
    pub settings: Settings,
}

#[activities]
impl MessageActivities {
    /// One attempt to deliver it.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Attempted, ActivityError> {
        tokio::select! {
            sent = self.deliver(&input, ctx.cancelled()) => sent?.ok_or_else(ActivityError::cancelled),
            never = heartbeat(&ctx) => match never {},
        }
    }

    /// Ends a message that the workflow gives up.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Closed, ActivityError> {
        Ok(self.give_up(&input).await?)
    }

    /// Takes a message up again.
    #[activity(definition = definitions::Retry)]
    pub async fn retry(self: Arc<Self>, _ctx: ActivityContext, input: RetryInput) -> Result<Retried, ActivityError> {
        Ok(self.take_up(&input).await?)
    }
}

impl MessageActivities {
    /// One attempt. `None`: it was cancelled before the dot, and nothing was sent.
    ///
    /// # Errors
    /// The store cannot answer, or a later attempt has begun.
    pub async fn deliver(
        &self,
        input: &SendInput,
        cancelled: impl Future<Output = ()>,
    ) -> Result<Option<Attempted>, Error> {
        let Some(message) = self.store.message(input.key.message_id()).await? else {
            return Ok(Some(Attempted { sent: Sent::Closed(missing()), delays: Vec::new() }));
        };
        let now = now(input.asked_at);
        let streams = &self.settings.streams;
        // A stream that this version does not know was one of another version.
        let stream = streams.named(&message.stream).unwrap_or(&streams.transactional);
        let delays = input.delays.clone().unwrap_or_else(|| stream.retry_delays.clone());
        let reasons = self.store.suppressed(&input.key.tenant, &message.envelope_to).await?;
        if let Some(reason) = reasons.into_iter().find(|reason| reason.forbids(&message.stream)) {
            let closed = Closed { outcome: Outcome::Suppressed, why: format!("the address is suppressed: {reason}") };
            let closed = self.store.close_message(&input.key, &closed, "", now).await?.unwrap_or(closed);
            alert::ended(message.id, &message.origin, &closed);
            return Ok(Some(Attempted { sent: Sent::Closed(closed), delays }));
        }
        let last = usize::try_from(input.failed).is_ok_and(|failed| failed >= delays.len());
        let soft_bounces = self.settings.soft_bounces;
        let courier = Courier { store: &*self.store, relays: &self.relays, stream, soft_bounces };
        let sent = courier.attempt(message.id, last, now, cancelled, as_large_as_it_is).await?;
        Ok(sent.map(|sent| Attempted { sent, delays }))
    }

    async fn give_up(&self, CloseInput { asked_at, key, order }: &CloseInput) -> Result<Closed, Error> {
        let (by, why) = order.as_ref().map_or(("", "cancelled"), |order| (&order.by, &order.why));
        let closed = Closed { outcome: Outcome::Dropped, why: why.to_owned() };
        Ok(self.store.close_message(key, &closed, by, now(*asked_at)).await?.unwrap_or_else(missing))
    }

    async fn take_up(&self, input: &RetryInput) -> Result<Retried, Error> {
        Ok(self.store.retry_message(input, now(input.asked_at)).await?)
    }
}

/// A single message says what its sender says: nothing of it can be left out.
async fn as_large_as_it_is(_: u32, _: &Message, _: &Delivery) -> Result<bool, Error> {
    Ok(false)
}

/// The end of a workflow that somebody started without a message.
fn missing() -> Closed {
    Closed { outcome: Outcome::Failed, why: "the outbox has no such message".to_owned() }
}
