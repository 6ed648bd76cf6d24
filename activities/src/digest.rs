//! The activities of the digest workflow: each looks, lets a pure function decide, and records.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_mail::{mailer::Signers, renderer::Renderer};
use tidings_model::{
    Key,
    contract::{
        AuditInput, BuryInput, CloseInput, Ending, LoadInput, Loaded, Plan, PlanInput, RenderInput, Rendered,
        ReopenInput, Resumed, RetractInput, SendInput, Sent, StashInput, Stashed,
    },
    records::{Closing, Facts, Recipient},
    rules::plan::plan,
    settings::{DigestSettings, Settings, UnknownRecipients},
};
use tidings_store::Store;
use tidings_workflows::activities::definitions;

use crate::relays::Relays;

/// Well under the heartbeat timeout, so that neither a busy moment nor the SDK's throttling looks like a dead worker.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// What the activities work with.
pub struct DigestActivities {
    /// Where everything is remembered.
    pub store: Arc<dyn Store>,
    /// Makes the mails.
    pub renderer: Renderer,
    /// Sign them.
    pub signers: Signers,
    /// Send them.
    pub relays: Arc<Relays>,
    /// The configuration.
    pub settings: Settings,
}

/// Why an activity has no answer now. All of it is worth another attempt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// See [`tidings_store::Error`].
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    /// Events came for a digest type that this worker does not know.
    #[error("digest type {0:?} is not configured: add [digest.{0}] to tidings.toml and restart the worker")]
    UnknownType(String),
    /// Not even the `default` template works, or the sender is no address.
    #[error("cannot make the mail: {0}")]
    Render(String),
    /// A later attempt has begun, or the digest has an end: look again.
    #[error("a later attempt has begun")]
    Fenced,
    /// An earlier run's signals cannot be read back.
    #[error("cannot read the history of run {run}: {why}")]
    History { run: String, why: String },
    /// And never again: the namespace's retention is over, or somebody deleted it.
    #[error("Temporal has no history of run {run} any more")]
    HistoryGone { run: String },
}

#[activities]
impl DigestActivities {
    /// When is the window due?
    #[activity(definition = definitions::Plan)]
    pub async fn plan(self: Arc<Self>, _ctx: ActivityContext, input: PlanInput) -> Result<Plan, ActivityError> {
        let settings = self.digest(&input.key)?;
        let facts = self.facts(&input.key).await?;
        let known = self.store.known_events(&input.key, &input.event_ids, input.open).await?;
        Ok(plan(settings, &facts, &input, known))
    }

    /// Keeps the workflow's state small.
    #[activity(definition = definitions::Stash)]
    pub async fn stash(self: Arc<Self>, ctx: ActivityContext, input: StashInput) -> Result<Stashed, ActivityError> {
        let StashInput { window, events, runs, delivering } = &input;
        let taken = self.store.stash(window, events, *delivering, Timestamp::now()).await?;
        for run in runs {
            self.read_back(&ctx, &input, run).await?;
        }
        Ok(Stashed { taken })
    }

    /// Admits and claims the due window, or says why not.
    #[activity(definition = definitions::Load)]
    pub async fn load(self: Arc<Self>, _ctx: ActivityContext, input: LoadInput) -> Result<Loaded, ActivityError> {
        Ok(self.claim(&input).await?)
    }

    /// Puts the mail in the outbox.
    #[activity(definition = definitions::Render)]
    pub async fn render(self: Arc<Self>, _ctx: ActivityContext, input: RenderInput) -> Result<Rendered, ActivityError> {
        Ok(self.compose(&input).await?)
    }

    /// One attempt to deliver it.
    #[activity(definition = definitions::Send)]
    pub async fn send(self: Arc<Self>, ctx: ActivityContext, input: SendInput) -> Result<Sent, ActivityError> {
        tokio::select! {
            sent = self.deliver(&input, ctx.cancelled()) => sent?.ok_or_else(ActivityError::cancelled),
            never = heartbeat(&ctx) => match never {},
        }
    }

    /// Ends a digest that the workflow gives up.
    #[activity(definition = definitions::Close)]
    pub async fn close(self: Arc<Self>, _ctx: ActivityContext, input: CloseInput) -> Result<Ending, ActivityError> {
        let CloseInput { asked_at, window, events, closed, by } = &input;
        let now = now(*asked_at);
        let closing = Closing { window, events, closed, by, return_events: false, now };
        Ok(self.store.close(closing).await?)
    }

    /// Takes events back.
    #[activity(definition = definitions::Retract)]
    pub async fn retract(self: Arc<Self>, _ctx: ActivityContext, input: RetractInput) -> Result<(), ActivityError> {
        Ok(self.take_back(&input).await?)
    }

    /// Takes a digest up again.
    #[activity(definition = definitions::Reopen)]
    pub async fn reopen(self: Arc<Self>, _ctx: ActivityContext, input: ReopenInput) -> Result<Resumed, ActivityError> {
        Ok(self.resume(&input).await?)
    }

    /// Records commands in the audit trail.
    #[activity(definition = definitions::Audit)]
    pub async fn audit(self: Arc<Self>, _ctx: ActivityContext, input: AuditInput) -> Result<(), ActivityError> {
        Ok(self.store.audit(&input).await?)
    }

    /// Records what could not be decoded.
    #[activity(definition = definitions::Bury)]
    pub async fn bury(self: Arc<Self>, _ctx: ActivityContext, input: BuryInput) -> Result<(), ActivityError> {
        tracing::warn!(alert = "dead_letters", count = input.letters.len(), "malformed events");
        Ok(self.store.bury(&input, Timestamp::now()).await?)
    }
}

impl DigestActivities {
    pub(crate) fn digest(&self, key: &Key) -> Result<&DigestSettings, Error> {
        self.settings.digest(key).ok_or_else(|| Error::UnknownType(key.digest_type.clone()))
    }

    pub(crate) async fn facts(&self, key: &Key) -> Result<Facts, Error> {
        let mut facts = self.store.facts(key).await?;
        if facts.recipient.is_none() && self.settings.unknown_recipients == UnknownRecipients::Invent {
            facts.recipient = Some(Recipient::invented(key));
        }
        Ok(facts)
    }
}

/// The first one comes late: most deliveries are over by then, and each heartbeat is a write of the server's.
pub(crate) async fn heartbeat(ctx: &ActivityContext) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        // A heartbeat that cannot be sent is one that the server misses, and that is the server's to judge.
        ctx.record_heartbeat(()).await.ok();
    }
}

/// The worker's clock, unless the workflow's is ahead of it.
pub(crate) fn now(asked_at: Timestamp) -> Timestamp {
    asked_at.max(Timestamp::now())
}
