//! The adapters and settings that every step of a digest or message works with.

use std::sync::Arc;

use jiff::Timestamp;
use tidings_mail::{dkim::Signers, render::Renderer};
use tidings_model::{
    Key,
    records::{Facts, Recipient},
    settings::{DigestSettings, Settings, UnknownRecipients},
};
use tidings_store::Store;

use crate::{error::Error, relays::Relays};

/// The dependencies of the activities of one worker.
#[derive(Clone)]
pub struct Deps {
    /// Ledger, outbox and directory.
    pub store: Arc<dyn Store>,
    /// Templates of digests and messages.
    pub renderer: Arc<Renderer>,
    /// DKIM keys of the streams.
    pub signers: Signers,
    /// Connections to the relays of this worker's stream.
    pub relays: Arc<Relays>,
    /// The configuration.
    pub settings: Settings,
}

impl Deps {
    /// The dependencies of previews, which are neither signed nor sent.
    #[must_use]
    pub fn for_previews(store: Arc<dyn Store>, renderer: Arc<Renderer>, settings: Settings) -> Self {
        Self { store, renderer, signers: Signers::default(), relays: Arc::default(), settings }
    }

    /// The settings of the key's digest type.
    pub(crate) fn digest(&self, key: &Key) -> Result<&DigestSettings, Error> {
        self.settings.digest(key).ok_or_else(|| Error::UnknownType(key.digest_type.clone()))
    }

    /// The facts about the key's recipient. On a laptop an unknown recipient is invented.
    pub(crate) async fn facts(&self, key: &Key) -> Result<Facts, Error> {
        Ok(self.invented(key, self.store.facts(key).await?))
    }

    /// The facts, on a laptop with an invented recipient for an unknown one.
    pub(crate) fn invented(&self, key: &Key, mut facts: Facts) -> Facts {
        if facts.recipient.is_none() && self.settings.unknown_recipients == UnknownRecipients::Invent {
            facts.recipient = Some(Recipient::invented(key));
        }
        facts
    }
}

/// The worker's clock, or the workflow's clock if that is ahead.
pub(crate) fn now(asked_at: Timestamp) -> Timestamp {
    asked_at.max(Timestamp::now())
}
