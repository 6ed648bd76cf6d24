//! Maintains this process's row in the store, and compares all rows (rule 59). The comparison itself is in
//! [`tidings_model::process`].

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use temporalio_client::Client;
use tidings_model::{
    Alert,
    installation::BEAT,
    process::{
        Difference, Disagreement, FORGOTTEN_AFTER, Process, ProcessProfile, agree, clock_offset, differences, live,
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
    Disagreement(#[from] Disagreement),
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Lists the live processes, by the store's clock.
///
/// # Errors
/// If the store fails.
pub async fn alive(store: &dyn Store) -> tidings_store::Result<Vec<Process>> {
    let processes = store.processes().await?;
    Ok(live(processes, store.clock().await?))
}

/// Compares the live processes.
///
/// # Errors
/// If the store fails.
pub async fn compared(store: &dyn Store) -> tidings_store::Result<Vec<Difference>> {
    let alive = alive(store).await?;
    Ok(differences(&alive.iter().map(|process| &process.profile).collect::<Vec<_>>()))
}

/// Checks before an irreversible step that all live workers agree. `own` is the caller's profile, since its
/// row may be outdated after a freeze.
///
/// # Errors
/// If they disagree, or the store fails.
pub async fn agreed(store: &dyn Store, own: Option<&ProcessProfile>) -> Result<(), AgreementError> {
    Ok(agree(&alive(store).await?, own)?)
}

pub struct Presence {
    store: Arc<dyn Store>,
    process: Process,
    beats: u32,
    logged: Vec<Difference>,
}

impl Presence {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, profile: ProcessProfile) -> Self {
        let process = Process { id: Uuid::new_v4(), seen_at: Timestamp::UNIX_EPOCH, profile };
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
        let seen_at = self.store.clock().await?;
        let ahead_of_store = clock_offset(begun, seen_at, Timestamp::now());
        let installation = self.store.installation().await?;
        let Process { profile, .. } = &mut self.process;
        profile.clock.store_ms = Some(milliseconds(ahead_of_store));
        profile.installation = installation.map(|installation| installation.identity);
        profile.file = self.store.file().await?;
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
        let fault = self.process.profile.clock.fault();
        // An SQLite database uses this clock, so a wrong one would delete live processes.
        if looks_at_clock && knows_clock && fault.is_none() {
            self.store.forget_processes(seen_at - FORGOTTEN_AFTER).await?;
        }
        // After a fault or an inconclusive check, check again at the next heartbeat.
        self.beats = if knows_clock && fault.is_none() { (self.beats + 1) % CLOCK_LOOK } else { 0 };
        match compared(&*self.store).await {
            Ok(found) => self.log(found),
            Err(error) => tracing::warn!(%error, "this process is not compared with the others, and tries again"),
        }
        Ok(fault)
    }

    fn log(&mut self, found: Vec<Difference>) {
        if found == self.logged {
            return;
        }
        for Difference { aspect, who } in &found {
            if aspect.is_expected() {
                tracing::info!(%aspect, who, "processes of this installation differ, as during an update");
            } else {
                tracing::warn!(
                    alert = %Alert::ProcessesDiffer, %aspect, who,
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
                        tracing::warn!(%error, "this process cannot show that it is at work, and tries again");
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
    use tidings_model::process::Role;
    use tidings_store::Sqlite;

    use super::*;

    #[tokio::test]
    async fn who_does_not_know_the_time_of_temporal_forgets_no_process() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let profile = |pid| ProcessProfile::new(Role::Worker, "a", pid, "tidings");
        let old = Process { id: Uuid::new_v4(), seen_at: Timestamp::UNIX_EPOCH, profile: profile(1) };
        store.put_process(&old).await.unwrap();
        Presence::new(store.clone(), profile(2)).beat(None).await.unwrap();
        assert_eq!(store.processes().await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_process_that_beats_is_alive_and_compared_until_its_row_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let profile = |pid, key: &str| {
            let link_keys = vec![key.to_owned()];
            ProcessProfile { link_keys, ..ProcessProfile::new(Role::Worker, "a", pid, "tidings") }
        };
        let mut one = Presence::new(store.clone(), profile(1, "aa"));
        let mut other = Presence::new(store.clone(), profile(2, "bb"));
        for _ in 0..2 {
            assert_eq!(one.beat(None).await.unwrap(), None);
        }
        assert!(agreed(&*store, None).await.is_ok());
        other.beat(None).await.unwrap();
        assert_eq!(alive(&*store).await.unwrap().len(), 2);
        assert!(matches!(agreed(&*store, None).await, Err(AgreementError::Disagreement(_))));
        store.remove_process(other.id()).await.unwrap();
        assert!(agreed(&*store, None).await.is_ok());
        assert!(agreed(&*store, Some(&profile(2, "bb"))).await.is_err(), "it was frozen, and its row is gone");
    }
}
