//! The claim of an installation on its Temporal namespace (rule 50). What a claim means is decided in
//! [`tidings_model::installation`].

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use temporalio_client::{
    Client, NamespacedClient as _,
    tonic::{Code, IntoRequest as _, Status},
};
use temporalio_common::protos::temporal::api::{
    common::v1::{Payload, Payloads, WorkflowType},
    schedule::v1::{Schedule, ScheduleAction, ScheduleSpec, ScheduleState, schedule_action::Action},
    taskqueue::v1::TaskQueue,
    workflow::v1::NewWorkflowExecutionInfo,
    workflowservice::v1::{CreateScheduleRequest, DescribeScheduleRequest, UpdateScheduleRequest},
};
use tidings_client::check_namespace;
use tidings_model::{
    installation::{BEAT, Claim, Installation, SCHEDULE, Standing},
    process::{ProcessProfile, clock_offset},
};
use tidings_store::Store;
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug_span};
use uuid::Uuid;

use crate::processes::Presence;

/// A database that must not work in the namespace, or a machine that must not.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
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

impl Refusal {
    /// The looks in a row after which a running worker still hopes: that another one repairs the beat, or that a clock was read at a bad
    /// moment.
    const fn doubts(&self) -> u32 {
        match self {
            Self::Copy { .. } => 2,
            Self::Clock { .. } => 1,
            Self::Foreign { .. } | Self::InUse { .. } => 0,
        }
    }
}

/// The standing of a database is unknown, or the database is refused.
#[derive(Debug, thiserror::Error)]
pub enum InstallationError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error("Temporal does not say to which installation the namespace belongs: {0}")]
    Temporal(#[from] tidings_client::Error),
}

/// The content of a namespace.
enum Kept {
    /// The server has no schedules, or does not let us read them: nothing is refused.
    Nothing,
    Vacant,
    Claimed {
        claim: Option<Claim>,
        conflict_token: Vec<u8>,
        /// The server's time of the last change.
        updated_at: Option<Timestamp>,
    },
}

impl Kept {
    const fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Claimed { claim, .. } => claim.as_ref(),
            Self::Nothing | Self::Vacant => None,
        }
    }
}

/// Refuses a database that must not work in the namespace. One call of Temporal, and none if the database has no identity.
///
/// # Errors
/// See [`InstallationError`].
pub async fn check(store: &dyn Store, temporal: &Client) -> Result<(), InstallationError> {
    if store.installation().await?.is_none() {
        return Ok(());
    }
    let kept = read(temporal).await?;
    // After the namespace: a worker changes the beat of the database first.
    let Some(installation) = store.installation().await? else { return Ok(()) };
    let now = Timestamp::now();
    Ok(accepted(&installation.standing(kept.claim(), now), temporal, now)?)
}

/// Gives the database an identity, and the namespace to the database, unless it has another owner. With `adopt` the database gets an
/// identity of its own, and takes over a namespace in which no worker is at work.
///
/// # Errors
/// See [`InstallationError`].
pub async fn claim(store: &dyn Store, temporal: &Client, adopt: bool) -> Result<(), InstallationError> {
    let kept = read(temporal).await?;
    let now = Timestamp::now();
    let mut installation = store.put_installation(Uuid::new_v4(), false).await?;
    if adopt {
        if let Some(at) = kept.claim().and_then(|claim| claim.seen_lately(now)) {
            let seconds = now.duration_since(at).as_secs();
            return Err(Refusal::InUse { namespace: temporal.namespace(), seconds }.into());
        }
        installation = store.put_installation(Uuid::new_v4(), true).await?;
    } else {
        let standing = installation.standing(kept.claim(), now);
        accepted(&standing, temporal, now)?;
        if standing == Standing::Ours {
            return Ok(());
        }
    }
    Ok(write(temporal, &installation.claim(None), &kept).await?)
}

/// Hands the namespace from a database of the installation to the one that its rows moved to, so that the first worker there does not
/// wait until those of the other place are gone. The caller knows that none of them runs. Changes nothing if another database has the
/// namespace.
///
/// # Errors
/// See [`InstallationError`].
pub async fn hand_over(from: &Installation, to: &Installation, temporal: &Client) -> Result<(), InstallationError> {
    let kept = read(temporal).await?;
    if kept.claim().is_some_and(|claim| claim.identity == from.identity && from.has(claim)) {
        write(temporal, &to.claim(None), &kept).await?;
    }
    Ok(())
}

fn accepted(standing: &Standing, temporal: &Client, now: Timestamp) -> Result<(), Refusal> {
    let namespace = temporal.namespace();
    match *standing {
        Standing::Vacant | Standing::Ours => Ok(()),
        Standing::Foreign { identity } => Err(Refusal::Foreign { namespace, identity }),
        Standing::Copy { seen_at } => Err(Refusal::Copy { namespace, seconds: now.duration_since(seen_at).as_secs() }),
    }
}

/// The beats of one worker.
pub struct Beats {
    store: Arc<dyn Store>,
    temporal: Client,
    presence: Presence,
    /// The latest beat that this worker wrote. A database that failed over to a standby may have lost the beat.
    last: Option<Uuid>,
    /// The looks in a row that refused.
    doubts: u32,
}

impl Beats {
    #[must_use]
    pub fn new(store: Arc<dyn Store>, temporal: Client, profile: ProcessProfile) -> Self {
        let presence = Presence::new(store.clone(), profile);
        Self { store, temporal, presence, last: None, doubts: 0 }
    }

    /// The id of this worker's row among the processes.
    #[must_use]
    pub const fn process(&self) -> Uuid {
        self.presence.id()
    }

    /// Writes this worker's row, looks, and changes the beat unless another worker did just now.
    ///
    /// # Errors
    /// See [`InstallationError`].
    pub async fn beat(&mut self) -> Result<(), InstallationError> {
        if let Some(fault) = self.presence.beat(Some(&self.temporal)).await? {
            return Err(Refusal::Clock { fault }.into());
        }
        let kept = read(&self.temporal).await?;
        if matches!(kept, Kept::Nothing) {
            return Ok(());
        }
        let Some(installation) = self.store.installation().await? else { return Ok(()) };
        let now = Timestamp::now();
        let claimed = kept.claim().map(|claim| claim.beat);
        if claimed.is_none() || claimed != self.last {
            accepted(&installation.standing(kept.claim(), now), &self.temporal, now)?;
        }
        let mut next = Installation { ..installation };
        // A beat that the namespace did not get is written again, so that it never has one before the last two.
        if claimed == Some(next.beat) {
            let to = Uuid::new_v4();
            if !self.store.beat(next.beat, to, now).await? {
                return Ok(());
            }
            next.beat = to;
        }
        write(&self.temporal, &next.claim(Some(now)), &kept).await?;
        self.last = Some(next.beat);
        Ok(())
    }

    /// Beats until the database is refused, and returns the refusal. A standby that was promoted may lack the beat of another worker, which
    /// that one repairs at its next beat: a copy is refused after three looks in a row, and a clock after two.
    #[must_use]
    pub fn run(mut self) -> BoxFuture<'static, Refusal> {
        Box::pin(async move {
            loop {
                sleep(BEAT.unsigned_abs()).await;
                match self.beat().await {
                    Ok(()) => self.doubts = 0,
                    Err(InstallationError::Refused(refusal)) if self.doubts < refusal.doubts() => {
                        tracing::warn!(%refusal, "this worker looks again before it stops");
                        self.doubts += 1;
                    }
                    Err(InstallationError::Refused(refusal)) => return refusal,
                    Err(error) => tracing::warn!(%error, "this worker cannot show that it is at work, and tries again"),
                }
            }
        })
    }
}

async fn read(temporal: &Client) -> Result<Kept, tidings_client::Error> {
    let request = DescribeScheduleRequest { namespace: temporal.namespace(), schedule_id: SCHEDULE.to_owned() };
    let mut service = temporal.connection().workflow_service();
    match service.describe_schedule(request.into_request()).instrument(call("describe_schedule")).await {
        Ok(described) => {
            let described = described.into_inner();
            let claim = described.schedule.and_then(claim_of);
            let updated_at = described.info.and_then(|info| info.update_time);
            let updated_at = updated_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
            Ok(Kept::Claimed { claim, conflict_token: described.conflict_token, updated_at })
        }
        Err(status) if status.code() == Code::NotFound => {
            check_namespace(&status)?;
            Ok(Kept::Vacant)
        }
        Err(status) if has_no_schedules(&status) => {
            tracing::debug!(%status, "the namespace cannot say to which installation it belongs");
            Ok(Kept::Nothing)
        }
        Err(status) => Err((&status).into()),
    }
}

fn has_no_schedules(status: &Status) -> bool {
    matches!(status.code(), Code::Unimplemented | Code::PermissionDenied | Code::FailedPrecondition)
        || status.message().contains("chedules are not enabled")
}

async fn write(temporal: &Client, claim: &Claim, kept: &Kept) -> Result<(), tidings_client::Error> {
    let (namespace, schedule_id) = (temporal.namespace(), SCHEDULE.to_owned());
    let (identity, request_id) = (temporal.identity(), Uuid::new_v4().to_string());
    let schedule = Some(schedule_of(claim));
    let mut service = temporal.connection().workflow_service();
    let written = match kept {
        Kept::Nothing => return Ok(()),
        Kept::Vacant => {
            let request =
                CreateScheduleRequest { namespace, schedule_id, schedule, identity, request_id, ..Default::default() };
            service.create_schedule(request.into_request()).instrument(call("create_schedule")).await.map(drop)
        }
        Kept::Claimed { conflict_token, .. } => {
            let conflict_token = conflict_token.clone();
            let request = UpdateScheduleRequest {
                namespace,
                schedule_id,
                schedule,
                conflict_token,
                identity,
                request_id,
                ..Default::default()
            };
            service.update_schedule(request.into_request()).instrument(call("update_schedule")).await.map(drop)
        }
    };
    match written {
        // Another process was faster: the next look says whose.
        Err(status) if matches!(status.code(), Code::AlreadyExists | Code::FailedPrecondition) => Ok(()),
        Err(status) if has_no_schedules(&status) => Ok(()),
        written => written.map_err(|status| (&status).into()),
    }
}

/// Looks whether a change of the schedule shows, and the pause before each.
const CLOCK_LOOKS: u32 = 20;
const CLOCK_PAUSE: Duration = Duration::from_millis(100);

/// The time by which this machine's clock is ahead of Temporal's. No call answers with the server's time, so that the claim is written as
/// it is: the schedule then has the time of the change. `None`: the namespace has no claim, or the change does not show within two seconds.
pub(crate) async fn temporal_clock_offset(temporal: &Client) -> Result<Option<SignedDuration>, tidings_client::Error> {
    let begun = Timestamp::now();
    let kept = read(temporal).await?;
    let Kept::Claimed { claim: Some(claim), updated_at: before, .. } = &kept else { return Ok(None) };
    write(temporal, claim, &kept).await?;
    for _ in 0..CLOCK_LOOKS {
        if let Kept::Claimed { updated_at: Some(updated_at), .. } = read(temporal).await?
            && Some(updated_at) != *before
        {
            return Ok(Some(clock_offset(begun, updated_at, Timestamp::now())));
        }
        sleep(CLOCK_PAUSE).await;
    }
    Ok(None)
}

/// A schedule that never starts anything: it is paused, and has no times.
fn schedule_of(claim: &Claim) -> Schedule {
    let name = SCHEDULE.to_owned();
    let data = serde_json::json!(claim).to_string().into_bytes();
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    let start = NewWorkflowExecutionInfo {
        workflow_id: name.clone(),
        workflow_type: Some(WorkflowType { name: name.clone() }),
        task_queue: Some(TaskQueue { name, ..TaskQueue::default() }),
        input: Some(Payloads { payloads: vec![Payload { metadata, data, ..Payload::default() }] }),
        ..NewWorkflowExecutionInfo::default()
    };
    let notes = "keeps to which installation of Tidings the namespace belongs; leave it alone".to_owned();
    Schedule {
        spec: Some(ScheduleSpec::default()),
        action: Some(ScheduleAction { action: Some(Action::StartWorkflow(start)) }),
        state: Some(ScheduleState { notes, paused: true, ..ScheduleState::default() }),
        ..Schedule::default()
    }
}

fn claim_of(schedule: Schedule) -> Option<Claim> {
    let Some(Action::StartWorkflow(start)) = schedule.action?.action else { return None };
    serde_json::from_slice(&start.input?.payloads.first()?.data).ok()
}

fn call(call: &'static str) -> Span {
    debug_span!("temporal", call, id = SCHEDULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_brings_its_claim_back_and_never_fires() {
        let (identity, beat) = (Uuid::from_u128(1), Uuid::from_u128(2));
        for at in [None, Some(Timestamp::from_second(1_800_000_000).unwrap())] {
            let claim = Claim { identity, beat, place: "here".into(), at };
            let schedule = schedule_of(&claim);
            assert!(schedule.state.as_ref().is_some_and(|state| state.paused));
            assert_eq!(claim_of(schedule), Some(claim));
        }
        assert_eq!(claim_of(Schedule::default()), None);
    }
}
