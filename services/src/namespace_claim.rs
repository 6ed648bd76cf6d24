//! Stores an installation's claim in its Temporal namespace, as a schedule which never starts anything.

use std::time::Duration;

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
    installation::{InstallationClaim, SCHEDULE},
    process::clock_offset,
};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug_span};
use uuid::Uuid;

pub enum NamespaceClaim {
    /// The server has no schedules or does not let us read them, so we cannot refuse anything.
    Nothing,
    Vacant,
    Claimed {
        claim: Option<InstallationClaim>,
        conflict_token: Vec<u8>,
        updated_at: Option<Timestamp>,
    },
}

impl NamespaceClaim {
    pub const fn claim(&self) -> Option<&InstallationClaim> {
        match self {
            Self::Claimed { claim, .. } => claim.as_ref(),
            Self::Nothing | Self::Vacant => None,
        }
    }
}

pub async fn read_claim(temporal: &Client) -> Result<NamespaceClaim, tidings_client::EmitError> {
    let request = DescribeScheduleRequest { namespace: temporal.namespace(), schedule_id: SCHEDULE.to_owned() };
    let mut service = temporal.connection().workflow_service();
    match service.describe_schedule(request.into_request()).instrument(call("describe_schedule")).await {
        Ok(described) => {
            let described = described.into_inner();
            let claim = described.schedule.and_then(claim_of);
            let updated_at = described.info.and_then(|info| info.update_time);
            let updated_at = updated_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok());
            Ok(NamespaceClaim::Claimed { claim, conflict_token: described.conflict_token, updated_at })
        }
        Err(status) if status.code() == Code::NotFound => {
            check_namespace(&status)?;
            Ok(NamespaceClaim::Vacant)
        }
        Err(status) if has_no_schedules(&status) => {
            tracing::debug!(%status, "the namespace cannot say to which installation it belongs");
            Ok(NamespaceClaim::Nothing)
        }
        Err(status) => Err((&status).into()),
    }
}

fn has_no_schedules(status: &Status) -> bool {
    matches!(status.code(), Code::Unimplemented | Code::PermissionDenied | Code::FailedPrecondition)
        || status.message().contains("chedules are not enabled")
}

pub async fn write_claim(
    temporal: &Client,
    claim: &InstallationClaim,
    kept: &NamespaceClaim,
) -> Result<(), tidings_client::EmitError> {
    let (namespace, schedule_id) = (temporal.namespace(), SCHEDULE.to_owned());
    let (identity, request_id) = (temporal.identity(), Uuid::new_v4().to_string());
    let schedule = Some(schedule_of(claim));
    let mut service = temporal.connection().workflow_service();
    let written = match kept {
        NamespaceClaim::Nothing => return Ok(()),
        NamespaceClaim::Vacant => {
            let request =
                CreateScheduleRequest { namespace, schedule_id, schedule, identity, request_id, ..Default::default() };
            service.create_schedule(request.into_request()).instrument(call("create_schedule")).await.map(drop)
        }
        NamespaceClaim::Claimed { conflict_token, .. } => {
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
        // Another process was faster. The next check will find its claim.
        Err(status) if matches!(status.code(), Code::AlreadyExists | Code::FailedPrecondition) => Ok(()),
        Err(status) if has_no_schedules(&status) => Ok(()),
        written => written.map_err(|status| (&status).into()),
    }
}

const CLOCK_LOOKS: u32 = 20;
const CLOCK_PAUSE: Duration = Duration::from_millis(100);

/// Measures how far this clock is ahead of Temporal's. No call returns the server's time, so we rewrite the
/// claim and read the update time. `None` without a claim, or if no update is visible within two seconds.
pub async fn temporal_clock_offset(temporal: &Client) -> Result<Option<SignedDuration>, tidings_client::EmitError> {
    let begun = Timestamp::now();
    let kept = read_claim(temporal).await?;
    let NamespaceClaim::Claimed { claim: Some(claim), updated_at: before, .. } = &kept else { return Ok(None) };
    write_claim(temporal, claim, &kept).await?;
    for _ in 0..CLOCK_LOOKS {
        if let NamespaceClaim::Claimed { updated_at: Some(updated_at), .. } = read_claim(temporal).await?
            && Some(updated_at) != *before
        {
            return Ok(Some(clock_offset(begun, updated_at, Timestamp::now())));
        }
        sleep(CLOCK_PAUSE).await;
    }
    Ok(None)
}

fn schedule_of(claim: &InstallationClaim) -> Schedule {
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

fn claim_of(schedule: Schedule) -> Option<InstallationClaim> {
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
            let claim = InstallationClaim { identity, beat, place: "here".into(), at };
            let schedule = schedule_of(&claim);
            assert!(schedule.state.as_ref().is_some_and(|state| state.paused));
            assert_eq!(claim_of(schedule), Some(claim));
        }
        assert_eq!(claim_of(Schedule::default()), None);
    }
}
