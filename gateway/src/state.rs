//! Dependencies of all routes.

use std::sync::Arc;

use axum::extract::{Path, rejection::PathRejection};
use temporalio_client::Client;
use tidings_mail::words::{LocalizedWords, Phrases};
use tidings_model::{Key, link_keys::LinkKeys, settings::Settings};
use tidings_services::{TeamDirectory, choices};
use tidings_store::Store;
use tokio::sync::watch;

use crate::recorder::TrackingRecorder;

#[derive(Clone)]
pub struct GatewayState {
    pub store: Arc<dyn Store>,
    pub directory: Option<Arc<TeamDirectory>>,
    pub settings: Arc<Settings>,
    pub words: Arc<LocalizedWords>,
    pub recorder: TrackingRecorder,
    /// `None` until Temporal answers for the first time. Links and webhooks work without it.
    pub temporal: watch::Receiver<Option<Client>>,
}

impl GatewayState {
    /// Ignores everything after the first character not allowed in tokens, because programs often include a
    /// trailing bracket, dot or quote in a link, or leave a `=` from a folded line. This is safe: tokens are
    /// signed. The caller should not find out why a token is invalid.
    pub(crate) fn verify_link<L>(
        &self,
        token: Result<Path<String>, PathRejection>,
        read: impl FnOnce(&LinkKeys, &str) -> Option<L>,
    ) -> Option<L> {
        let Path(text) = token.ok()?;
        let token = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))).next()?;
        read(self.settings.link_keys.as_ref()?, token)
    }

    #[must_use]
    pub fn temporal(&self) -> Option<Client> {
        self.temporal.borrow().clone()
    }

    /// Makes open windows read the store again.
    pub(crate) async fn wake_windows(&self, keys: impl IntoIterator<Item = &Key>) {
        let client = self.temporal();
        let client = client.as_ref().ok_or("Temporal has not answered yet");
        choices::wake_windows(client, &self.settings.names, keys, "the recipient's wish").await;
    }

    /// In the recipient's language, else the tenant's, else English.
    pub(crate) fn phrases(&self, tenant: &str, locale: &str) -> Phrases<'_> {
        self.words.choose_for(self.settings.names.tenant(tenant), self.settings.locales(tenant, locale))
    }
}
