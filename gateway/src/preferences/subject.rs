//! One digest type of the recipient, with its open window.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use tidings_client::WorkflowCommands;
use tidings_model::{
    Key,
    command::DuePreview,
    names,
    records::KeyFacts,
    rules::{
        EffectiveSchedule,
        effective::EffectiveSettings,
        open_window::{DuePrediction, due_after_change},
    },
    settings::{DigestSettings, FrequencyLimits},
};
use tidings_services::choices;
use tidings_store::StoreError;
use tokio::time::timeout;

use crate::GatewayState;

/// Without open windows the page shows when we would send a new event.
const WINDOWS: Duration = Duration::from_secs(1);

pub(super) struct DigestSubject<'a> {
    pub key: Key,
    pub settings: &'a DigestSettings,
    pub facts: KeyFacts,
    limits: FrequencyLimits,
    open: Option<DuePreview>,
    capped_from: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextDigest {
    /// Due time of the open window.
    Due(DuePrediction),
    /// Due time if an event arrived now.
    IfNew(Timestamp),
    /// No digest with the current preferences.
    Never,
}

impl<'a> DigestSubject<'a> {
    /// All digest types of the tenant.
    pub async fn load_all(state: &'a GatewayState, key: &Key, now: Timestamp) -> Result<Vec<Self>, StoreError> {
        let settings = &state.settings;
        let keys = settings.digest_types(&key.tenant).into_iter().map(|digest_type| Key { digest_type, ..key.clone() });
        let keys: Vec<_> = keys.collect();
        let facts = try_join_all(keys.iter().map(|key| state.store.facts(key))).await?;
        // The cap counts the digests of each type separately.
        let capped = keys.iter().map(|key| choices::capped_from(&*state.store, settings.cap, key, now));
        let capped = try_join_all(capped).await?;
        let open = open_windows(state, &keys).await;
        let subjects =
            keys.into_iter().zip(facts).zip(open).zip(capped).filter_map(|(((key, facts), open), capped_from)| {
                let digest = settings.digest(&key)?;
                let limits = settings.frequency_limits(digest);
                Some(Self { key, settings: digest, facts, limits, open, capped_from })
            });
        Ok(subjects.collect())
    }

    pub fn effective(&self, now: Timestamp) -> EffectiveSettings {
        EffectiveSettings::new(self.settings, &self.facts, now)
    }

    /// Uses the window that was open before a change.
    pub fn with_window_of(self, before: &[DigestSubject<'_>]) -> Self {
        let open = before.iter().find(|before| before.key == self.key).and_then(|before| before.open.clone());
        Self { open, ..self }
    }

    /// `before` are the facts used to plan the open window.
    pub fn next(&self, before: &KeyFacts, now: Timestamp) -> NextDigest {
        let Self { key, settings, facts, limits, capped_from, .. } = self;
        let Some(next) = EffectiveSchedule::new(settings, limits, *capped_from, facts, key, now).next else {
            return NextDigest::Never;
        };
        self.pending_due(before, now).map_or(NextDigest::IfNew(next.due_at), NextDigest::Due)
    }

    /// Due time of pending events, even during a pause.
    pub fn pending_due(&self, before: &KeyFacts, now: Timestamp) -> Option<DuePrediction> {
        let Self { settings, facts, limits, open, capped_from, .. } = self;
        Some(due_after_change(settings, *limits, before, facts, open.as_ref()?, *capped_from, now))
    }
}

async fn open_windows(state: &GatewayState, keys: &[Key]) -> Vec<Option<DuePreview>> {
    let none = || keys.iter().map(|_| None).collect();
    let Some(client) = state.temporal() else { return none() };
    // The queue matters only for starting a workflow, which this never does.
    let commands = WorkflowCommands::new(client, names::TASK_QUEUE).with_patience(WINDOWS);
    let asked = keys.iter().map(|key| async {
        let names = state.settings.names.all_keys(key);
        let due =
            join_all(names.iter().map(|key| async { commands.digest(key).due_window().await.ok().flatten() })).await;
        due.into_iter().flatten().min_by_key(|due| due.window.due_at)
    });
    timeout(WINDOWS, join_all(asked)).await.unwrap_or_else(|_| none())
}
