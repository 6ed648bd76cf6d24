//! Preferences and consent, for commands that change them.

use std::sync::Arc;

use temporalio_client::Client;
use tidings_model::{Key, settings::Settings};
use tidings_services::choices::{self, Error};
use tidings_store::Store;

use crate::{Config, error::Usage, storage};

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
        Ok(Self { config, settings: config.unsigned(), store, temporal: None })
    }

    /// Notifies the workflows for this key, under each of its names. A failure is only a warning: the stored
    /// change will apply when the window is due.
    pub async fn tell(&mut self, key: &Key) {
        for key in self.settings.names.keys(key) {
            let told = match self.connected().await {
                Some(client) => choices::tell(client, &key).await.map_err(|error| error.to_string()),
                None => return,
            };
            if let Err(reason) = told {
                warn(&format!("{key} was not told ({reason})"));
            }
        }
    }

    async fn connected(&mut self) -> Option<&Client> {
        if self.temporal.is_none() {
            let client = crate::installation::connect(self.config).await;
            self.temporal = Some(client.inspect_err(|error| warn(&error.to_string())));
        }
        self.temporal.as_ref()?.as_ref().ok()
    }
}

fn warn(problem: &str) {
    anstream::eprintln!("warning: {problem}; it was written down, and an open window follows it when it is due");
}

pub(crate) fn usage(error: Error) -> anyhow::Error {
    match error {
        Error::Invalid(invalid) => Usage(invalid.to_string()).into(),
        Error::UnknownType(_) => Usage(error.to_string()).into(),
        Error::Conflict(_) | Error::Store(_) => error.into(),
    }
}
