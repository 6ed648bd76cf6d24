//! Checks that a process may use the configured Temporal namespace (rule 50).

use std::time::Duration;

use temporalio_client::Client;
use tidings_mail::dkim::TenantSigners;
use tidings_model::{
    installation::BEAT,
    link_keys::LinkKeys,
    process::{ProcessProfile, ProcessRole, fingerprint},
};
use tidings_services::installation::{ClaimRefusal, InstallationError, check};
use tidings_store::{Store, StoreBackend};
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
    if let Some(store) = open_if_available(&config.database_url).await {
        match check(&*store, &temporal).await {
            Err(InstallationError::Refused(refusal)) => return Err(refusal.into()),
            Err(error) => tracing::debug!(%error, "cannot check which installation owns the namespace"),
            Ok(()) => {}
        }
    }
    Ok(temporal)
}

async fn open_if_available(url: &SecretUrl) -> Option<std::sync::Arc<dyn Store>> {
    if url.sqlite_file().is_some_and(|file| !file.exists()) {
        return None;
    }
    StoreBackend::connect(url.reveal()).await.ok()?.checked_store().await.ok()
}

pub(crate) fn profile(config: &Config, role: ProcessRole, signers: &TenantSigners) -> ProcessProfile {
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

enum NamespaceStatus {
    Admitted,
    /// Workers with another database of this installation are running.
    Copy,
    Unknown,
}

async fn check_namespace(store: &dyn Store, temporal: &Client) -> Result<NamespaceStatus, ClaimRefusal> {
    match check(store, temporal).await {
        Ok(()) => Ok(NamespaceStatus::Admitted),
        Err(InstallationError::Refused(refusal @ ClaimRefusal::Copy { .. })) => {
            tracing::error!(%refusal, "waiting until the other workers are gone");
            Ok(NamespaceStatus::Copy)
        }
        Err(InstallationError::Refused(refusal)) => Err(refusal),
        Err(error) => {
            tracing::warn!(%error, "cannot check which installation owns the namespace; retrying");
            Ok(NamespaceStatus::Unknown)
        }
    }
}

/// Waits until the database may be used with the namespace, e.g. until workers with another database are
/// gone.
///
/// # Errors
/// The namespace belongs to another installation.
pub(crate) async fn wait_until_admitted(store: &dyn Store, temporal: &Client) -> Result<(), ClaimRefusal> {
    while !matches!(check_namespace(store, temporal).await?, NamespaceStatus::Admitted) {
        sleep(LOOK).await;
    }
    Ok(())
}

/// Publishes the client in `offered`, and removes it while workers with another database of this installation
/// run. Returns only if the namespace belongs to another one.
pub(crate) async fn publish_client(
    store: &dyn Store,
    temporal: Client,
    offered: &watch::Sender<Option<Client>>,
) -> ClaimRefusal {
    loop {
        match check_namespace(store, &temporal).await {
            Ok(NamespaceStatus::Admitted) => drop(offered.send_replace(Some(temporal.clone()))),
            Ok(NamespaceStatus::Copy) => drop(offered.send_replace(None)),
            Ok(NamespaceStatus::Unknown) => {}
            Err(refusal) => return refusal,
        }
        let is_offered = offered.borrow().is_some();
        sleep(if is_offered { BEAT.unsigned_abs() } else { LOOK }).await;
    }
}
