//! The adapters and settings shared by all digest and message steps.

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

#[derive(Clone)]
pub struct Deps {
    pub store: Arc<dyn Store>,
    pub directory: Option<Arc<TeamDirectory>>,
    pub renderer: Arc<Renderer>,
    pub signers: Signers,
    pub relays: Arc<Relays>,
    pub settings: Settings,
    /// The task queue for digests. Empty for previews.
    pub task_queue: String,
}

impl Deps {
    /// Builds dependencies for previews, which are neither signed nor sent.
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

    /// Returns the settings for the key's digest type.
    ///
    /// # Errors
    /// If the digest type is not configured.
    pub fn digest(&self, key: &Key) -> Result<&DigestSettings, Error> {
        self.settings.digest(key).ok_or_else(|| Error::UnknownType(key.digest_type.clone()))
    }

    /// Hands this step to another worker on the task queue if one there has the digest type configured.
    ///
    /// # Errors
    /// [`Error::OtherWorker`], or if the store fails.
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

    /// Reads the facts about the key's recipient, from the team's own directory if configured. In
    /// development, we make up an unknown recipient.
    ///
    /// # Errors
    /// If the store fails, or the directory is not responding and never did.
    pub async fn facts(&self, key: &Key) -> Result<Facts, Error> {
        let facts = team_directory::facts(self.directory.as_deref(), &*self.store, key).await?;
        Ok(deliverable(self.invented(key, facts)))
    }

    /// Reads the facts about the key's recipient from the store.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn kept_facts(&self, key: &Key) -> Result<Facts, Error> {
        Ok(self.invented(key, self.store.facts(key).await?))
    }

    /// Like [`facts`](Self::facts), plus `true` for a fresh window.
    ///
    /// # Errors
    /// If the store fails, or the directory is not responding and never did.
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

    /// Reads stored facts for an attempt, and the message while it can be rendered again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn facts_for_attempt(&self, window: &Window) -> Result<(Facts, Option<WaitingMessage>), Error> {
        let (facts, waiting) = self.store.facts_for_attempt(&window.key, window.digest_id).await?;
        Ok((deliverable(self.invented(&window.key, facts)), waiting))
    }

    /// Returns new facts if the team's own directory has changed. While it is not responding, nothing
    /// changes.
    ///
    /// # Errors
    /// If the store fails, or the directory's response cannot be stored.
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

    #[must_use]
    pub fn invented(&self, key: &Key, mut facts: Facts) -> Facts {
        if facts.recipient.is_none() && self.settings.unknown_recipients == UnknownRecipients::Invent {
            facts.recipient = Some(Recipient::invented(key));
        }
        facts
    }
}

/// Treats a recipient with an impossible email address as unknown (rule 33).
fn deliverable(facts: Facts) -> Facts {
    match facts.recipient.as_ref().and_then(|recipient| recipient.email_address().err()) {
        Some(error) => facts.without_recipient(format!("the directory has an {error}; import another")),
        None => facts,
    }
}

/// Returns the worker's clock, or the workflow's if this is ahead.
#[must_use]
pub fn now(asked_at: Timestamp) -> Timestamp {
    asked_at.max(Timestamp::now())
}
