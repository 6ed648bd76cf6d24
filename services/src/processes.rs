//! Maintains this process's row in the store, and compares all rows (rule 59). The comparison itself is in
//! [`tidings_model::process`].

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use temporalio_client::Client;
use tidings_model::{
    AlertName,
    installation::BEAT,
    process::{
        FORGOTTEN_AFTER, ProcessDifference, ProcessProfile, ProcessRecord, WorkerDisagreement, check_agreement,
        clock_offset, find_differences, live_processes,
    },
};
use tidings_store::Store;
use tokio::{sync::watch, time::sleep};
use uuid::Uuid;

use crate::namespace_claim::temporal_clock_offset;

/// Heartbeats between clock checks, since each needs a write: one check a minute.
const CLOCK_LOOK: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum AgreementError {
    #[error(transparent)]
    Disagreement(#[from] WorkerDisagreement),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

/// Lists the live processes, by the store's clock.
///
/// # Errors
/// If the store fails.
pub async fn load_live_processes(store: &dyn Store) -> tidings_store::Result<Vec<ProcessRecord>> {
    let processes = store.processes().await?;
    Ok(live_processes(processes, store.database_clock().await?))
}

/// Compares the live processes.
///
/// # Errors
/// If the store fails.
pub async fn compare_processes(store: &dyn Store) -> tidings_store::Result<Vec<ProcessDifference>> {
    let alive = load_live_processes(store).await?;
    Ok(find_differences(&alive.iter().map(|process| &process.profile).collect::<Vec<_>>()))
}

/// Checks before an irreversible step that all live workers agree. `own` is the caller's profile, since its
/// row may be outdated after a freeze.
///
/// # Errors
/// If they disagree, or the store fails.
pub async fn require_agreement(store: &dyn Store, own: Option<&ProcessProfile>) -> Result<(), AgreementError> {
    Ok(check_agreement(&load_live_processes(store).await?, own)?)
}

pub struct ProcessPresence {
    store: Arc<dyn Store>,
    process: ProcessRecord,
    beats: u32,
    logged: Vec<ProcessDifference>,
}

impl ProcessPresence {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, profile: ProcessProfile) -> Self {
        let process = ProcessRecord { id: Uuid::new_v4(), seen_at: Timestamp::UNIX_EPOCH, profile };
        Self { store, process, beats: 0, logged: Vec::new() }
    }

    #[must_use]
    pub const fn id(&self) -> Uuid {
        self.process.id
    }

    /// Updates the row, and logs changed differences. Returns a description of a wrong clock.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn beat(&mut self, temporal: Option<&Client>) -> tidings_store::Result<Option<String>> {
        let begun = Timestamp::now();
        let seen_at = self.store.database_clock().await?;
        let ahead_of_store = clock_offset(begun, seen_at, Timestamp::now());
        let installation = self.store.installation().await?;
        let ProcessRecord { profile, .. } = &mut self.process;
        profile.clock.store_ms = Some(milliseconds(ahead_of_store));
        profile.installation = installation.map(|installation| installation.identity);
        profile.file = self.store.database_file().await?;
        let looks_at_clock = self.beats == 0;
        let mut knows_clock = !looks_at_clock;
        if let Some(temporal) = temporal
            && looks_at_clock
        {
            match temporal_clock_offset(temporal).await {
                Ok(Some(offset)) => {
                    profile.clock.temporal_ms = Some(milliseconds(offset));
                    knows_clock = true;
                }
                // Keep the result of the previous check.
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the clock is not compared with Temporal's"),
            }
        }
        self.process.seen_at = seen_at;
        self.store.put_process(&self.process).await?;
        let fault = self.process.profile.clock.clock_fault();
        // An SQLite database uses this clock, so a wrong one would delete live processes.
        if looks_at_clock && knows_clock && fault.is_none() {
            self.store.forget_processes(seen_at - FORGOTTEN_AFTER).await?;
        }
        // After a fault or an inconclusive check, check again at the next heartbeat.
        self.beats = if knows_clock && fault.is_none() { (self.beats + 1) % CLOCK_LOOK } else { 0 };
        match compare_processes(&*self.store).await {
            Ok(found) => self.log(found),
            Err(error) => tracing::warn!(%error, "cannot compare this process with the others; retrying"),
        }
        Ok(fault)
    }

    fn log(&mut self, found: Vec<ProcessDifference>) {
        if found == self.logged {
            return;
        }
        for ProcessDifference { aspect, who } in &found {
            if aspect.is_expected() {
                tracing::info!(%aspect, who, "processes of this installation differ, as during an update");
            } else {
                tracing::warn!(
                    alert = %AlertName::ProcessesDiffer, %aspect, who,
                    "processes of this installation differ: give all of them the same configuration and keys; until then nothing is deleted"
                );
            }
        }
        if found.is_empty() {
            tracing::info!("all processes of this installation agree");
        }
        self.logged = found;
    }

    #[must_use]
    pub fn run(mut self, temporal: watch::Receiver<Option<Client>>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            loop {
                let client = temporal.borrow().clone();
                match self.beat(client.as_ref()).await {
                    Ok(None) => {}
                    Ok(Some(fault)) => {
                        tracing::error!("the clock of this machine is {fault}: set it, for example by NTP");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot record this process's heartbeat; retrying");
                    }
                }
                sleep(BEAT.unsigned_abs()).await;
            }
        })
    }
}

fn milliseconds(offset: SignedDuration) -> i64 {
    i64::try_from(offset.as_millis()).unwrap_or(if offset.is_negative() { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use tidings_model::process::ProcessRole;
    use tidings_store::SqliteStore;

    use super::*;

    #[tokio::test]
    async fn who_does_not_know_the_time_of_temporal_forgets_no_process() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let profile = |pid| ProcessProfile::new(ProcessRole::Worker, "a", pid, "tidings");
        let old = ProcessRecord { id: Uuid::new_v4(), seen_at: Timestamp::UNIX_EPOCH, profile: profile(1) };
        store.put_process(&old).await.unwrap();
        ProcessPresence::new(store.clone(), profile(2)).beat(None).await.unwrap();
        assert_eq!(store.processes().await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_process_that_beats_is_alive_and_compared_until_its_row_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let profile = |pid, key: &str| {
            let link_keys = vec![key.to_owned()];
            ProcessProfile { link_keys, ..ProcessProfile::new(ProcessRole::Worker, "a", pid, "tidings") }
        };
        let mut one = ProcessPresence::new(store.clone(), profile(1, "aa"));
        let mut other = ProcessPresence::new(store.clone(), profile(2, "bb"));
        for _ in 0..2 {
            assert_eq!(one.beat(None).await.unwrap(), None);
        }
        assert!(require_agreement(&*store, None).await.is_ok());
        other.beat(None).await.unwrap();
        assert_eq!(load_live_processes(&*store).await.unwrap().len(), 2);
        assert!(matches!(require_agreement(&*store, None).await, Err(AgreementError::Disagreement(_))));
        store.remove_process(other.id()).await.unwrap();
        assert!(require_agreement(&*store, None).await.is_ok());
        assert!(
            require_agreement(&*store, Some(&profile(2, "bb"))).await.is_err(),
            "it was frozen, and its row is gone"
        );
    }
}
