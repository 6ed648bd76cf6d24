//! The adapters and settings that every step of a digest or message works with.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_mail::{dkim::Signers, render::Renderer};
use tidings_model::{
    Key, PersonId,
    process::{Process, Role},
    records::{Facts, Recipient, WaitingMessage},
    settings::{DigestSettings, Settings, UnknownRecipients},
    window::Window,
};
use tidings_store::Store;

use crate::{
    error::Error,
    processes,
    relays::Relays,
    team_directory::{self, Looked, TeamDirectory},
};

/// The dependencies of the activities of one worker.
#[derive(Clone)]
pub struct Deps {
    /// Ledger, outbox and directory.
    pub store: Arc<dyn Store>,
    /// The team's own directory, if recipients come from there.
    pub directory: Option<Arc<TeamDirectory>>,
    /// Templates of digests and messages.
    pub renderer: Arc<Renderer>,
    /// DKIM keys of the streams and of tenants.
    pub signers: Signers,
    /// Connections to the relays, for all mail of the process.
    pub relays: Arc<Relays>,
    /// The configuration.
    pub settings: Settings,
    /// The digests' task queue. Previews have none.
    pub task_queue: String,
}

impl Deps {
    /// The dependencies of previews, which are neither signed nor sent.
    #[must_use]
    pub fn for_previews(
        store: Arc<dyn Store>,
        directory: Option<Arc<TeamDirectory>>,
        renderer: Arc<Renderer>,
        settings: Settings,
    ) -> Self {
        let (signers, relays, task_queue) = (Signers::default(), Arc::default(), String::new());
        Self { store, directory, renderer, signers, relays, settings, task_queue }
    }

    /// The settings of the key's digest type.
    ///
    /// # Errors
    /// No table has the digest type.
    pub fn digest(&self, key: &Key) -> Result<&DigestSettings, Error> {
        self.settings.digest(key).ok_or_else(|| Error::UnknownType(key.digest_type.clone()))
    }

    /// Hands a step whose digest type only another worker of this task queue has in its configuration to that one. Without such a worker
    /// the step goes on.
    ///
    /// # Errors
    /// [`Error::OtherWorker`], or the store cannot answer.
    pub async fn leave_to_other_worker(&self, key: &Key) -> Result<(), Error> {
        let alive = processes::alive(&*self.store).await?;
        let takes_it = |Process { profile, .. }: &Process| {
            let is_beside = profile.role == Role::Worker && profile.task_queue == self.task_queue;
            is_beside && profile.has_digest_type(&key.digest_type)
        };
        if alive.iter().any(takes_it) {
            return Err(Error::OtherWorker(key.digest_type.clone()));
        }
        Ok(())
    }

    /// The facts about the key's recipient, whom the team's own directory is asked for. On a laptop an unknown recipient is invented.
    ///
    /// # Errors
    /// The store cannot answer, or the directory is away and has never answered.
    pub async fn facts(&self, key: &Key) -> Result<Facts, Error> {
        let facts = team_directory::facts(self.directory.as_deref(), &*self.store, key).await?;
        Ok(deliverable(self.invented(key, facts)))
    }

    /// The facts about the key's recipient, as the store has them.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn kept_facts(&self, key: &Key) -> Result<Facts, Error> {
        Ok(self.invented(key, self.store.facts(key).await?))
    }

    /// As [`facts`](Self::facts), and `true` for a fresh window.
    ///
    /// # Errors
    /// The store cannot answer, or the directory is away and has never answered.
    pub async fn facts_for_claim(&self, window: &Window) -> Result<(Facts, bool), Error> {
        let (facts, fresh) = self.store.facts_for_claim(window).await?;
        let looked = match &self.directory {
            Some(directory) => directory.look_up(&*self.store, &PersonId::of(&window.key), &facts).await?,
            None => Looked::Same,
        };
        let (facts, fresh) = match looked {
            Looked::Same => (facts, fresh),
            Looked::Changed => self.store.facts_for_claim(window).await?,
            Looked::Missing(why) => (facts.without_recipient(why), fresh),
        };
        Ok((deliverable(self.invented(&window.key, facts)), fresh))
    }

    /// The facts for an attempt, as the store has them, and the message while it can be made again.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn facts_for_attempt(&self, window: &Window) -> Result<(Facts, Option<WaitingMessage>), Error> {
        let (facts, waiting) = self.store.facts_for_attempt(&window.key, window.digest_id).await?;
        Ok((deliverable(self.invented(&window.key, facts)), waiting))
    }

    /// The facts of now, if the team's own directory has others than these. While it is away, its last answer stands: a message was
    /// made for that.
    ///
    /// # Errors
    /// The store cannot answer, or the answer of the directory cannot be stored.
    pub async fn changed_facts(&self, key: &Key, facts: &Facts) -> Result<Option<Facts>, Error> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let changed = match directory.look_up(&*self.store, &PersonId::of(key), facts).await {
            Ok(Looked::Same) | Err(Error::Directory(_)) => return Ok(None),
            Ok(Looked::Changed) => self.store.facts(key).await?,
            Ok(Looked::Missing(why)) => facts.clone().without_recipient(why),
            Err(error) => return Err(error),
        };
        Ok(Some(deliverable(self.invented(key, changed))))
    }

    /// The facts, on a laptop with an invented recipient for an unknown one.
    #[must_use]
    pub fn invented(&self, key: &Key, mut facts: Facts) -> Facts {
        if facts.recipient.is_none() && self.settings.unknown_recipients == UnknownRecipients::Invent {
            facts.recipient = Some(Recipient::invented(key));
        }
        facts
    }
}

/// The facts; a recipient whose address no email can have counts as unknown (rule 33).
fn deliverable(facts: Facts) -> Facts {
    match facts.recipient.as_ref().and_then(|recipient| recipient.email_address().err()) {
        Some(error) => facts.without_recipient(format!("the directory has an {error}; import another")),
        None => facts,
    }
}

/// The worker's clock, or the workflow's clock if that is ahead.
#[must_use]
pub fn now(asked_at: Timestamp) -> Timestamp {
    asked_at.max(Timestamp::now())
}
