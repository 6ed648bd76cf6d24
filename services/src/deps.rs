//! Adapters and settings for all digest and message steps.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_mail::{dkim::TenantSigners, render::TemplateRenderer};
use tidings_model::{
    Key, PersonId,
    process::{ProcessRecord, ProcessRole},
    records::{KeyFacts, Recipient, WaitingMessage},
    settings::{DigestSettings, Settings, UnknownRecipients},
    window::Window,
};
use tidings_store::Store;

use crate::{
    error::StepError,
    processes,
    relays::RelaySet,
    team_directory::{self, DirectoryLookup, TeamDirectory},
};

#[derive(Clone)]
pub struct StepServices {
    pub store: Arc<dyn Store>,
    pub directory: Option<Arc<TeamDirectory>>,
    pub renderer: Arc<TemplateRenderer>,
    pub signers: TenantSigners,
    pub relays: Arc<RelaySet>,
    pub settings: Settings,
    /// The task queue for digests. Empty for previews.
    pub task_queue: String,
}

impl StepServices {
    /// Previews are neither signed nor sent.
    #[must_use]
    pub fn for_previews(
        store: Arc<dyn Store>,
        directory: Option<Arc<TeamDirectory>>,
        renderer: Arc<TemplateRenderer>,
        settings: Settings,
    ) -> Self {
        let (signers, relays, task_queue) = (TenantSigners::default(), Arc::default(), String::new());
        Self { store, directory, renderer, signers, relays, settings, task_queue }
    }

    /// # Errors
    /// If the digest type is not configured.
    pub fn digest_settings(&self, key: &Key) -> Result<&DigestSettings, StepError> {
        self.settings.digest(key).ok_or_else(|| StepError::UnknownType(key.digest_type.clone()))
    }

    /// Hands this step to another worker on the task queue if one there has the digest type configured.
    ///
    /// # Errors
    /// [`StepError::OtherWorker`], or if the store fails.
    pub async fn leave_to_other_worker(&self, key: &Key) -> Result<(), StepError> {
        let alive = processes::load_live_processes(&*self.store).await?;
        let takes_it = |ProcessRecord { profile, .. }: &ProcessRecord| {
            let is_beside = profile.role == ProcessRole::Worker && profile.task_queue == self.task_queue;
            is_beside && profile.has_digest_type(&key.digest_type)
        };
        if alive.iter().any(takes_it) {
            return Err(StepError::OtherWorker(key.digest_type.clone()));
        }
        Ok(())
    }

    /// Reads the facts about the key's recipient, from the team's own directory if configured. In
    /// development, we make up an unknown recipient.
    ///
    /// # Errors
    /// If the store fails, or the directory is not responding and never did.
    pub async fn facts(&self, key: &Key) -> Result<KeyFacts, StepError> {
        let facts = team_directory::facts(self.directory.as_deref(), &*self.store, key).await?;
        Ok(without_bad_address(self.with_invented_recipient(key, facts)))
    }

    /// Like [`facts`](Self::facts), but only from the store.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn kept_facts(&self, key: &Key) -> Result<KeyFacts, StepError> {
        Ok(self.with_invented_recipient(key, self.store.facts(key).await?))
    }

    /// Like [`facts`](Self::facts), plus `true` for a fresh window.
    ///
    /// # Errors
    /// If the store fails, or the directory is not responding and never did.
    pub async fn facts_for_claim(&self, window: &Window) -> Result<(KeyFacts, bool), StepError> {
        let (facts, fresh) = self.store.facts_for_claim(window).await?;
        let looked = match &self.directory {
            Some(directory) => directory.look_up(&*self.store, &PersonId::from_key(&window.key), &facts).await?,
            None => DirectoryLookup::Same,
        };
        let (facts, fresh) = match looked {
            DirectoryLookup::Same => (facts, fresh),
            DirectoryLookup::Changed => self.store.facts_for_claim(window).await?,
            DirectoryLookup::Missing(why) => (facts.without_recipient(why), fresh),
        };
        Ok((without_bad_address(self.with_invented_recipient(&window.key, facts)), fresh))
    }

    /// Reads stored facts for an attempt, and the message while it can be rendered again.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn facts_for_attempt(&self, window: &Window) -> Result<(KeyFacts, Option<WaitingMessage>), StepError> {
        let (facts, waiting) = self.store.facts_for_attempt(&window.key, window.digest_id).await?;
        Ok((without_bad_address(self.with_invented_recipient(&window.key, facts)), waiting))
    }

    /// Returns new facts if the team's own directory has changed. `None` also while it is not responding.
    ///
    /// # Errors
    /// If the store fails, or the directory's response cannot be stored.
    pub async fn changed_facts(&self, key: &Key, facts: &KeyFacts) -> Result<Option<KeyFacts>, StepError> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let changed = match directory.look_up(&*self.store, &PersonId::from_key(key), facts).await {
            Ok(DirectoryLookup::Same) | Err(StepError::Directory(_)) => return Ok(None),
            Ok(DirectoryLookup::Changed) => self.store.facts(key).await?,
            Ok(DirectoryLookup::Missing(why)) => facts.clone().without_recipient(why),
            Err(error) => return Err(error),
        };
        Ok(Some(without_bad_address(self.with_invented_recipient(key, changed))))
    }

    #[must_use]
    pub fn with_invented_recipient(&self, key: &Key, mut facts: KeyFacts) -> KeyFacts {
        if facts.recipient.is_none() && self.settings.unknown_recipients == UnknownRecipients::Invent {
            facts.recipient = Some(Recipient::for_development(key));
        }
        facts
    }
}

/// Treats a recipient with an impossible email address as unknown (rule 33).
fn without_bad_address(facts: KeyFacts) -> KeyFacts {
    match facts.recipient.as_ref().and_then(|recipient| recipient.email_address().err()) {
        Some(error) => facts.without_recipient(format!("the directory has an {error}; import another")),
        None => facts,
    }
}

/// Returns the worker's clock, or the workflow's if this is ahead.
#[must_use]
pub fn now_at_least(asked_at: Timestamp) -> Timestamp {
    asked_at.max(Timestamp::now())
}
