//! `tidings preferences` and `tidings consent`: what recipients chose, and whether they want a digest at all.

use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};
use temporalio_client::Client;
use tidings_activities::{
    choices::{self, Error},
    settings::Settings,
    store::Store,
};
use tidings_workflows::{Key, command::Order};

use crate::{Config, Storage, cli::Usage, config::Unreachable, operate::command::login};

mod changes;
pub(crate) mod consent;
mod import;
pub(crate) mod preferences;
mod shown;

/// Who, and why.
#[derive(Debug, clap::Args)]
pub(crate) struct Reason {
    /// Who, for the audit trail: a login, no address [default: yours on this machine]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
    /// Why, for the audit trail [default: the command]
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl Reason {
    pub(crate) fn order(self, command: &str) -> Result<Order, Usage> {
        let by = self.by.or_else(login).unwrap_or_else(|| "unknown".to_owned());
        let order = Order { by, why: self.why.unwrap_or_else(|| command.to_owned()) };
        order.check().map_err(|error| Usage(format!("--{error}")))?;
        Ok(order)
    }
}

/// What all of these commands work with.
struct Desk<'a> {
    config: &'a Config,
    settings: Settings,
    store: Arc<dyn Store>,
    /// Connected when there is something to tell. `None`: it did not answer, and that was said.
    temporal: Option<Option<Client>>,
}

impl<'a> Desk<'a> {
    async fn open(config: &'a Config) -> anyhow::Result<Self> {
        let store = Storage::connect(&config.database_url).await?.ready().await?;
        Ok(Self { config, settings: config.unsigned(), store, temporal: None })
    }

    /// Tells the key's workflow that something was chosen. Where nobody hears it that is a warning: it was written down,
    /// and counts when the window is due.
    async fn tell(&mut self, key: &Key) {
        let told = match self.connected().await {
            Some(client) => choices::tell(client, key).await.map_err(|error| error.to_string()),
            None => return,
        };
        if let Err(reason) = told {
            warn(&format!("{key} was not told ({reason})"));
        }
    }

    async fn connected(&mut self) -> Option<&Client> {
        if self.temporal.is_none() {
            let client = self.config.temporal.connect().await;
            let unheard = |error: Unreachable| warn(&error.to_string());
            self.temporal = Some(client.map_err(unheard).ok());
        }
        self.temporal.as_ref()?.as_ref()
    }
}

fn warn(problem: &str) {
    anstream::eprintln!("warning: {problem}; it was written down, and an open window follows it when it is due");
}

/// What the caller must change is [`Usage`].
fn usage(error: Error) -> anyhow::Error {
    match error {
        Error::Invalid(invalid) => Usage(invalid.to_string()).into(),
        Error::UnknownType(_) => Usage(error.to_string()).into(),
        Error::Store(error) => error.into(),
    }
}

fn in_zone(at: Timestamp, zone: &str) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    at.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}
