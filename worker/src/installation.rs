//! Checks that a process may use the configured Temporal namespace (rule 50).

use std::time::Duration;

use temporalio_client::Client;
use tidings_mail::dkim::Signers;
use tidings_model::{
    installation::BEAT,
    link_keys::LinkKeys,
    process::{ProcessProfile, Role, fingerprint},
};
use tidings_services::installation::{InstallationError, Refusal, check};
use tidings_store::{Storage, Store};
use tokio::{sync::watch, time::sleep};

use crate::{Config, config::SecretUrl};

/// Poll interval while workers with another database are running, or while the check fails.
const LOOK: Duration = Duration::from_secs(5);

/// Connects a command to Temporal, unless the namespace belongs to another installation. Skips this check
/// without a database, e.g. on a producer's machine.
///
/// # Errors
/// Temporal does not respond, or the database must not be used with this namespace.
pub(crate) async fn connect(config: &Config) -> anyhow::Result<Client> {
    let temporal = config.temporal.connect().await?;
    if let Some(store) = at_hand(&config.database_url).await {
        match check(&*store, &temporal).await {
            Err(InstallationError::Refused(refusal)) => return Err(refusal.into()),
            Err(error) => tracing::debug!(%error, "nothing says whose namespace this is"),
            Ok(()) => {}
        }
    }
    Ok(temporal)
}

async fn at_hand(url: &SecretUrl) -> Option<std::sync::Arc<dyn Store>> {
    if url.file().is_some_and(|file| !file.exists()) {
        return None;
    }
    Storage::connect(url.reveal()).await.ok()?.ready().await.ok()
}

pub(crate) fn profile(config: &Config, role: Role, signers: &Signers) -> ProcessProfile {
    let host = rustix::system::uname();
    let own = ProcessProfile::new(role, &host.nodename().to_string_lossy(), std::process::id(), &config.task_queue);
    ProcessProfile {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sections: config.sections.clone(),
        former_types: config.names.digests.keys().cloned().collect(),
        link_keys: config.link_keys.keys().map(LinkKeys::fingerprints).unwrap_or_default(),
        dkim_keys: signers.all_records().map(|record| fingerprint(record.as_bytes())).collect(),
        ..own
    }
}

enum Look {
    Admitted,
    /// Workers with another database of this installation are running.
    Copy,
    Unknown,
}

async fn look(store: &dyn Store, temporal: &Client) -> Result<Look, Refusal> {
    match check(store, temporal).await {
        Ok(()) => Ok(Look::Admitted),
        Err(InstallationError::Refused(refusal @ Refusal::Copy { .. })) => {
            tracing::error!(%refusal, "waits until the other workers are gone");
            Ok(Look::Copy)
        }
        Err(InstallationError::Refused(refusal)) => Err(refusal),
        Err(error) => {
            tracing::warn!(%error, "it is not known whose namespace this is");
            Ok(Look::Unknown)
        }
    }
}

/// Waits until the database may be used with the namespace, e.g. until workers with another database are
/// gone.
///
/// # Errors
/// The namespace belongs to another installation.
pub(crate) async fn admitted(store: &dyn Store, temporal: &Client) -> Result<(), Refusal> {
    while !matches!(look(store, temporal).await?, Look::Admitted) {
        sleep(LOOK).await;
    }
    Ok(())
}

/// Publishes the client in `offered`, and removes it while workers with another database of this installation
/// are running. Only returns if the namespace belongs to another installation.
pub(crate) async fn offer(store: &dyn Store, temporal: Client, offered: &watch::Sender<Option<Client>>) -> Refusal {
    loop {
        match look(store, &temporal).await {
            Ok(Look::Admitted) => drop(offered.send_replace(Some(temporal.clone()))),
            Ok(Look::Copy) => drop(offered.send_replace(None)),
            Ok(Look::Unknown) => {}
            Err(refusal) => return refusal,
        }
        let is_offered = offered.borrow().is_some();
        sleep(if is_offered { BEAT.unsigned_abs() } else { LOOK }).await;
    }
}
