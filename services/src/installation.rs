//! Claims a Temporal namespace for an installation (rule 50). See [`tidings_model::installation`] for the
//! decisions.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use temporalio_client::{Client, NamespacedClient as _};
use tidings_model::{
    installation::{BEAT, Installation, NamespaceOwnership},
    process::ProcessProfile,
};
use tidings_store::Store;
use tokio::time::sleep;
use uuid::Uuid;

use crate::{
    namespace_claim::{NamespaceClaim, read_claim, write_claim},
    processes::ProcessPresence,
};

#[derive(Debug, thiserror::Error)]
pub enum ClaimRefusal {
    #[error(
        "the Temporal namespace {namespace} belongs to another installation ({identity}): check TEMPORAL_NAMESPACE and database_url. A \
         database from elsewhere, such as a dump of production in staging, takes the namespace over with `tidings migrate \
         --adopt-namespace`, and gets an identity of its own"
    )]
    Foreign { namespace: String, identity: Uuid },
    #[error(
        "the database is a copy: {seconds} s ago a worker of another database of this installation was at work in the Temporal namespace \
         {namespace}. Stop those workers, and this database goes on a minute later; or give the copy a namespace of its own, with \
         `tidings migrate --adopt-namespace`"
    )]
    Copy { namespace: String, seconds: i64 },
    #[error(
        "workers were at work in the Temporal namespace {namespace} {seconds} s ago: stop them first, and adopt it a minute later"
    )]
    InUse { namespace: String, seconds: i64 },
    #[error(
        "the clock of this machine is {fault}: set it, for example by NTP, and start again. Windows, pauses, limits and retention would \
         go by a wrong time"
    )]
    Clock { fault: String },
}

impl ClaimRefusal {
    /// How many failed checks in a row to tolerate: another worker may repair the heartbeat, or the clock was
    /// read at a bad moment.
    const fn tolerated_failures(&self) -> u32 {
        match self {
            Self::Copy { .. } => 2,
            Self::Clock { .. } => 1,
            Self::Foreign { .. } | Self::InUse { .. } => 0,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    #[error(transparent)]
    Refused(#[from] ClaimRefusal),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
    #[error("Temporal does not say to which installation the namespace belongs: {0}")]
    Temporal(#[from] tidings_client::EmitError),
}

/// Checks the database's claim to the namespace. This needs one Temporal call, or none if the database has no
/// identity yet.
///
/// # Errors
/// See [`InstallationError`].
pub async fn check(store: &dyn Store, temporal: &Client) -> Result<(), InstallationError> {
    if store.installation().await?.is_none() {
        return Ok(());
    }
    let kept = read_claim(temporal).await?;
    // Read this after the namespace, because a worker updates the database first.
    let Some(installation) = store.installation().await? else { return Ok(()) };
    let now = Timestamp::now();
    Ok(check_standing(&installation.check_ownership(kept.claim(), now), temporal, now)?)
}

/// Gives the database an identity and claims the namespace unless it has another owner. With `adopt`, takes
/// it over with a new identity, provided no worker is active there.
///
/// # Errors
/// See [`InstallationError`].
pub async fn claim(store: &dyn Store, temporal: &Client, adopt: bool) -> Result<(), InstallationError> {
    let kept = read_claim(temporal).await?;
    let now = Timestamp::now();
    let mut installation = store.put_installation(Uuid::new_v4(), false).await?;
    if adopt {
        if let Some(at) = kept.claim().and_then(|claim| claim.seen_lately(now)) {
            let seconds = now.duration_since(at).as_secs();
            return Err(ClaimRefusal::InUse { namespace: temporal.namespace(), seconds }.into());
        }
        installation = store.put_installation(Uuid::new_v4(), true).await?;
    } else {
        let standing = installation.check_ownership(kept.claim(), now);
        check_standing(&standing, temporal, now)?;
        if standing == NamespaceOwnership::Ours {
            return Ok(());
        }
    }
    Ok(write_claim(temporal, &installation.claim(None), &kept).await?)
}

/// Transfers the claim after a database migration, so the first worker there need not wait. Make sure no
/// worker is running. Does nothing if another database owns the namespace.
///
/// # Errors
/// See [`InstallationError`].
pub async fn hand_over(from: &Installation, to: &Installation, temporal: &Client) -> Result<(), InstallationError> {
    let kept = read_claim(temporal).await?;
    if kept.claim().is_some_and(|claim| claim.identity == from.identity && from.matches_claim(claim)) {
        write_claim(temporal, &to.claim(None), &kept).await?;
    }
    Ok(())
}

fn check_standing(standing: &NamespaceOwnership, temporal: &Client, now: Timestamp) -> Result<(), ClaimRefusal> {
    let namespace = temporal.namespace();
    match *standing {
        NamespaceOwnership::Vacant | NamespaceOwnership::Ours => Ok(()),
        NamespaceOwnership::Foreign { identity } => Err(ClaimRefusal::Foreign { namespace, identity }),
        NamespaceOwnership::Copy { seen_at } => {
            Err(ClaimRefusal::Copy { namespace, seconds: now.duration_since(seen_at).as_secs() })
        }
    }
}

pub struct WorkerHeartbeat {
    store: Arc<dyn Store>,
    temporal: Client,
    presence: ProcessPresence,
    last: Option<Uuid>,
    doubts: u32,
}

impl WorkerHeartbeat {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, temporal: Client, profile: ProcessProfile) -> Self {
        let presence = ProcessPresence::new(store.clone(), profile);
        Self { store, temporal, presence, last: None, doubts: 0 }
    }

    #[must_use]
    pub const fn process(&self) -> Uuid {
        self.presence.id()
    }

    /// Updates this worker's row, checks the claim, and renews the heartbeat unless another worker has just
    /// done so.
    ///
    /// # Errors
    /// See [`InstallationError`].
    pub async fn beat(&mut self) -> Result<(), InstallationError> {
        if let Some(fault) = self.presence.beat(Some(&self.temporal)).await? {
            return Err(ClaimRefusal::Clock { fault }.into());
        }
        let kept = read_claim(&self.temporal).await?;
        if matches!(kept, NamespaceClaim::Nothing) {
            return Ok(());
        }
        let Some(installation) = self.store.installation().await? else { return Ok(()) };
        let now = Timestamp::now();
        let claimed = kept.claim().map(|claim| claim.beat);
        if claimed.is_none() || claimed != self.last {
            check_standing(&installation.check_ownership(kept.claim(), now), &self.temporal, now)?;
        }
        let mut next = Installation { ..installation };
        // If the namespace missed a heartbeat, write it again, so it is never more than one behind.
        if claimed == Some(next.beat) {
            let to = Uuid::new_v4();
            if !self.store.advance_beat(next.beat, to, now).await? {
                return Ok(());
            }
            next.beat = to;
        }
        write_claim(&self.temporal, &next.claim(Some(now)), &kept).await?;
        self.last = Some(next.beat);
        Ok(())
    }

    /// Sends heartbeats until the database is refused, and returns why. A promoted standby may lack another
    /// worker's heartbeat until its next one, so a copy is refused after three checks in a row, a wrong clock
    /// after two.
    #[must_use]
    pub fn run(mut self) -> BoxFuture<'static, ClaimRefusal> {
        Box::pin(async move {
            loop {
                sleep(BEAT.unsigned_abs()).await;
                match self.beat().await {
                    Ok(()) => self.doubts = 0,
                    Err(InstallationError::Refused(refusal)) if self.doubts < refusal.tolerated_failures() => {
                        tracing::warn!(%refusal, "this worker looks again before it stops");
                        self.doubts += 1;
                    }
                    Err(InstallationError::Refused(refusal)) => return refusal,
                    Err(error) => tracing::warn!(%error, "cannot record this worker's heartbeat; retrying"),
                }
            }
        })
    }
}
