//! One digest type of the recipient, with its open window.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use tidings_client::Commands;
use tidings_model::{
    Key,
    command::Due,
    names,
    records::Facts,
    rules::{
        InForce,
        effective::Effective,
        open_window::{Foreseen, due_after_change},
    },
    settings::{DigestSettings, FrequencyLimits},
};
use tidings_services::choices;
use tidings_store::Error;
use tokio::time::timeout;

use crate::State;

/// Without open windows the page shows when we would send a new event.
const WINDOWS: Duration = Duration::from_secs(1);

pub(super) struct Subject<'a> {
    pub key: Key,
    pub settings: &'a DigestSettings,
    pub facts: Facts,
    limits: FrequencyLimits,
    open: Option<Due>,
    capped_from: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Due time of the open window.
    Due(Foreseen),
    /// Due time if an event arrived now.
    IfNew(Timestamp),
    /// No digest with the current preferences.
    Never,
}

impl<'a> Subject<'a> {
    /// Loads all digest types of the tenant for this recipient.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn all(state: &'a State, key: &Key, now: Timestamp) -> Result<Vec<Self>, Error> {
        let settings = &state.settings;
        let keys = settings.digest_types(&key.tenant).into_iter().map(|digest_type| Key { digest_type, ..key.clone() });
        let keys: Vec<_> = keys.collect();
        let facts = try_join_all(keys.iter().map(|key| state.store.facts(key))).await?;
        // The cap counts the digests of each type separately.
        let capped = keys.iter().map(|key| choices::capped_from(&*state.store, settings.cap, key, now));
        let capped = try_join_all(capped).await?;
        let open = open(state, &keys).await;
        let subjects =
            keys.into_iter().zip(facts).zip(open).zip(capped).filter_map(|(((key, facts), open), capped_from)| {
                let digest = settings.digest(&key)?;
                let limits = settings.frequency_limits(digest);
                Some(Self { key, settings: digest, facts, limits, open, capped_from })
            });
        Ok(subjects.collect())
    }

    pub fn effective(&self, now: Timestamp) -> Effective {
        Effective::new(self.settings, &self.facts, now)
    }

    /// Uses the window that was open before a change.
    pub fn with_window_of(self, before: &[Subject<'_>]) -> Self {
        let open = before.iter().find(|before| before.key == self.key).and_then(|before| before.open.clone());
        Self { open, ..self }
    }

    /// `before` are the facts used to plan the open window.
    pub fn next(&self, before: &Facts, now: Timestamp) -> Next {
        let Self { key, settings, facts, limits, capped_from, .. } = self;
        let Some(next) = InForce::new(settings, limits, *capped_from, facts, key, now).next else {
            return Next::Never;
        };
        self.waiting(before, now).map_or(Next::IfNew(next.due_at), Next::Due)
    }

    /// Due time of pending events, even during a pause.
    pub fn waiting(&self, before: &Facts, now: Timestamp) -> Option<Foreseen> {
        let Self { settings, facts, limits, open, capped_from, .. } = self;
        Some(due_after_change(settings, *limits, before, facts, open.as_ref()?, *capped_from, now))
    }
}

async fn open(state: &State, keys: &[Key]) -> Vec<Option<Due>> {
    let none = || keys.iter().map(|_| None).collect();
    let Some(client) = state.temporal() else { return none() };
    // The queue matters only for starting a workflow, which this never does.
    let commands = Commands::new(client, names::TASK_QUEUE).with_patience(WINDOWS);
    let asked = keys.iter().map(|key| async {
        let names = state.settings.names.keys(key);
        let due = join_all(names.iter().map(|key| async { commands.digest(key).due().await.ok().flatten() })).await;
        due.into_iter().flatten().min_by_key(|due| due.window.due_at)
    });
    timeout(WINDOWS, join_all(asked)).await.unwrap_or_else(|_| none())
}
