//! Preferences and consent, for commands that change them.

use std::sync::Arc;

use temporalio_client::Client;
use tidings_model::{Key, settings::Settings};
use tidings_services::choices::{self, PreferencesError};
use tidings_store::Store;

use crate::{Config, error::UsageError, storage};

pub(crate) struct PreferenceStore<'a> {
    config: &'a Config,
    pub settings: Settings,
    pub store: Arc<dyn Store>,
    /// Connected on first use. An error has already been printed as a warning.
    temporal: Option<anyhow::Result<Client>>,
}

impl<'a> PreferenceStore<'a> {
    pub async fn open(config: &'a Config) -> anyhow::Result<Self> {
        let store = storage::open(&config.database_url).await?;
        Ok(Self { config, settings: config.unchecked_settings(), store, temporal: None })
    }

    /// Notifies the workflows for this key, under each of its names. A failure is only a warning: the stored
    /// change will apply when the window is due.
    pub async fn notify_workflows(&mut self, key: &Key) {
        for key in self.settings.names.all_keys(key) {
            let told = match self.temporal_client().await {
                Some(client) => choices::signal_key(client, &key).await.map_err(|error| error.to_string()),
                None => return,
            };
            if let Err(reason) = told {
                warn_stored(&format!("{key} could not be signalled ({reason})"));
            }
        }
    }

    async fn temporal_client(&mut self) -> Option<&Client> {
        if self.temporal.is_none() {
            let client = crate::installation::connect(self.config).await;
            self.temporal = Some(client.inspect_err(|error| warn_stored(&error.to_string())));
        }
        self.temporal.as_ref()?.as_ref().ok()
    }
}

fn warn_stored(problem: &str) {
    anstream::eprintln!("warning: {problem}; the change is stored, and an open window follows it when it is due");
}

pub(crate) fn to_usage_error(error: PreferencesError) -> anyhow::Error {
    match error {
        PreferencesError::Invalid(invalid) => UsageError(invalid.to_string()).into(),
        PreferencesError::UnknownType(_) => UsageError(error.to_string()).into(),
        PreferencesError::Conflict(_) | PreferencesError::Store(_) => error.into(),
    }
}
