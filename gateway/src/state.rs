//! The adapters and settings that every route works with.

use std::sync::Arc;

use axum::extract::{Path, rejection::PathRejection};
use temporalio_client::Client;
use tidings_mail::words::{Phrases, Words};
use tidings_model::{Key, link_keys::LinkKeys, settings::Settings};
use tidings_services::{TeamDirectory, choices};
use tidings_store::Store;
use tokio::sync::watch;

use crate::recorder::Recorder;

/// The dependencies of the routes.
#[derive(Clone)]
pub struct State {
    /// Consent, suppressions, delivery events.
    pub store: Arc<dyn Store>,
    /// The team's own directory, if recipients come from there.
    pub directory: Option<Arc<TeamDirectory>>,
    /// The configuration.
    pub settings: Arc<Settings>,
    /// The words of pages, by language.
    pub words: Arc<Words>,
    /// Records openings and clicks.
    pub recorder: Recorder,
    /// The connection to Temporal; `None` until Temporal has answered once. Links and webhooks work without Temporal.
    pub temporal: watch::Receiver<Option<Client>>,
}

impl State {
    /// Reads the token of a link, up to the first character that no token has: programs take the bracket, dot or quote behind a link for a
    /// part of it, and leave a `=` of a folded line. Such a character cannot make another token right, because a token is signed. Nothing
    /// tells why a token is wrong.
    pub(crate) fn link<L>(
        &self,
        token: Result<Path<String>, PathRejection>,
        read: impl FnOnce(&LinkKeys, &str) -> Option<L>,
    ) -> Option<L> {
        let Path(text) = token.ok()?;
        let token = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))).next()?;
        read(self.settings.link_keys.as_ref()?, token)
    }

    /// Returns the connection to Temporal, if there is one.
    #[must_use]
    pub fn temporal(&self) -> Option<Client> {
        self.temporal.borrow().clone()
    }

    /// Tells the open windows of these keys that the store has something new for them.
    pub(crate) async fn wake(&self, keys: impl IntoIterator<Item = &Key>) {
        let client = self.temporal();
        let client = client.as_ref().ok_or("Temporal has not answered yet");
        choices::wake(client, &self.settings.names, keys, "the recipient's wish").await;
    }

    /// Returns the tenant's words for a recipient: in the recipient's language, else in the tenant's, else in English.
    pub(crate) fn phrases(&self, tenant: &str, locale: &str) -> Phrases<'_> {
        self.words.choose_for(self.settings.names.tenant(tenant), self.settings.locales(tenant, locale))
    }
}
