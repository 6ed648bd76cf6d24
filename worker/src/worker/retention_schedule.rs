//! The schedule for the nightly purge. Each worker updates it at the start and every hour. If an operator
//! pauses the schedule, it stays paused.

use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use futures::TryStreamExt as _;
use jiff::civil::Time;
use temporalio_client::{
    Client, RpcOptions, WorkflowDescribeOptions, WorkflowExecutionStatus,
    schedules::{
        CreateScheduleOptions, DeleteScheduleOptions, ListSchedulesOptions, ScheduleAction, ScheduleCalendarSpec,
        ScheduleDescription, ScheduleError, ScheduleHandle, ScheduleOverlapPolicy, ScheduleSpec, ScheduleUpdate,
        TriggerScheduleOptions,
    },
    tonic::Code,
};
use temporalio_common::protos::temporal::api::schedule::v1::{Range, Schedule, schedule_action::Action};
use tidings_client::check_namespace;
use tidings_model::{AlertName, names};
use tidings_operations::stats::task_queues;
use tidings_workflows::RetentionRun;
use tokio::time::sleep;
use tracing::{Instrument as _, Span, debug_span};

use crate::error::in_words;

/// If Temporal missed a purge, run it up to this late. After this, wait for the next night.
const CATCH_UP: Duration = Duration::from_hours(12);

const RETRY: Duration = Duration::from_mins(1);

/// Check interval, because someone may have deleted the schedule.
const AGAIN: Duration = Duration::from_hours(1);

/// A triggered schedule should start its workflow well within this time.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub struct RetentionSchedule<'a> {
    pub task_queue: &'a str,
    pub at: Time,
}

impl RetentionSchedule<'_> {
    pub async fn maintain_schedule(&self, client: &Client) -> Infallible {
        loop {
            self.ensure_at_last(client).await;
            if let Err(error) = self.delete_abandoned(client).await {
                tracing::warn!(error = in_words(&error), "cannot delete retention schedules of other task queues");
            }
            sleep(AGAIN).await;
        }
    }

    /// Deletes schedules of this installation's other task queues, which would start a workflow on an empty
    /// queue every night, unless the queue has a worker. Keeps a paused one, because it would no longer be
    /// paused if created again.
    ///
    /// # Errors
    /// Temporal does not respond, or does not support schedules.
    pub async fn delete_abandoned(&self, client: &Client) -> anyhow::Result<()> {
        let own = names::retention_schedule(self.task_queue);
        let mut schedules = client.list_schedules(ListSchedulesOptions::default());
        while let Some(schedule) = schedules.try_next().await? {
            let id = schedule.schedule_id();
            let Some(queue) = names::queue_of_retention(id).filter(|_| id != own) else { continue };
            if schedule.workflow_type() != Some(names::RETENTION_WORKFLOW_TYPE) || is_polled(client, queue).await? {
                continue;
            }
            let abandoned = client.get_schedule_handle(id);
            if describe(&abandoned, id).await?.paused() {
                continue;
            }
            abandoned.delete(DeleteScheduleOptions::default()).instrument(call_span("delete_schedule", id)).await?;
            tracing::info!(schedule = id, "deleted the retention schedule of a task queue without workers");
        }
        Ok(())
    }

    async fn ensure_at_last(&self, client: &Client) {
        while let Err(error) = self.ensure(client).await {
            let error = in_words(&error);
            tracing::error!(
                alert = %AlertName::UpkeepUnscheduled,
                %error,
                "retention schedule missing: old data will not be deleted; retrying in {} s",
                RETRY.as_secs()
            );
            sleep(RETRY).await;
        }
    }

    /// Creates the schedule, or updates it if it differs.
    ///
    /// # Errors
    /// Temporal does not respond, or does not support schedules.
    pub async fn ensure(&self, client: &Client) -> anyhow::Result<()> {
        let id = names::retention_schedule(self.task_queue);
        let schedule = client.get_schedule_handle(&id);
        if !is_there(&schedule, &id).await? {
            let options =
                CreateScheduleOptions::builder().action(self.action()).spec(self.spec()).overlap_policy(POLICY).build();
            match client.create_schedule(id.as_str(), options).instrument(call_span("create_schedule", &id)).await {
                Err(ScheduleError::Rpc(status)) if status.code() == Code::AlreadyExists => {}
                created => drop(created.with_context(|| format!("schedule {id} cannot be created"))?),
            }
        }
        let found = describe(&schedule, &id).await?.into_raw().schedule.unwrap_or_default();
        if !self.is_as_wanted(&found) {
            let (action, spec) = (self.action(), self.spec());
            let change = move |update: &mut ScheduleUpdate| {
                update.set_action(action).set_spec(spec).set_overlap_policy(POLICY);
                update.set_catchup_window(CATCH_UP);
            };
            let updated =
                schedule.update(change, RpcOptions::default()).instrument(call_span("update_schedule", &id)).await;
            updated.with_context(|| format!("schedule {id}"))?;
            tracing::info!(schedule = id, at = %self.at, "retention scheduled");
        }
        Ok(())
    }

    fn action(&self) -> ScheduleAction {
        let id = names::retention_schedule(self.task_queue);
        ScheduleAction::StartWorkflow {
            workflow_type: names::RETENTION_WORKFLOW_TYPE.to_owned(),
            task_queue: id.clone(),
            workflow_id: id,
            input: None,
        }
    }

    fn spec(&self) -> ScheduleSpec {
        let calendar =
            ScheduleCalendarSpec::builder().hour(self.at.hour().to_string()).minute(self.at.minute().to_string());
        ScheduleSpec::from_calendar(calendar.build())
    }

    /// Used to avoid needless updates: after any update, the server would forget missed runs.
    fn is_as_wanted(&self, schedule: &Schedule) -> bool {
        let id = names::retention_schedule(self.task_queue);
        let Some(Action::StartWorkflow(start)) = schedule.action.as_ref().and_then(|action| action.action.as_ref())
        else {
            return false;
        };
        let (Some(spec), Some(policies)) = (&schedule.spec, &schedule.policies) else { return false };
        let is = |ranges: &[Range], value: i8| matches!(ranges, [range] if range.start == i32::from(value) && range.end <= range.start);
        start.workflow_id == id
            && start.workflow_type.as_ref().is_some_and(|found| found.name == names::RETENTION_WORKFLOW_TYPE)
            && start.task_queue.as_ref().is_some_and(|queue| queue.name == id)
            && matches!(&spec.structured_calendar[..], [calendar]
                if is(&calendar.hour, self.at.hour()) && is(&calendar.minute, self.at.minute()))
            && policies
                .catchup_window
                .as_ref()
                .is_some_and(|window| window.seconds.unsigned_abs() == CATCH_UP.as_secs())
    }
}

async fn is_polled(client: &Client, task_queue: &str) -> anyhow::Result<bool> {
    Ok(task_queues(client, task_queue).await?.iter().any(|queue| queue.pollers > 0))
}

async fn describe(schedule: &ScheduleHandle<Client>, id: &str) -> Result<ScheduleDescription, ScheduleError> {
    schedule.describe(RpcOptions::default()).instrument(call_span("describe_schedule", id)).await
}

fn call_span(call: &'static str, id: &str) -> Span {
    debug_span!("temporal", call, id)
}

async fn is_there(schedule: &ScheduleHandle<Client>, id: &str) -> Result<bool, ScheduleError> {
    match describe(schedule, id).await {
        Ok(_) => Ok(true),
        Err(ScheduleError::Rpc(status)) if status.code() == Code::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the id of the triggered run, or of the one already in progress.
///
/// # Errors
/// Temporal does not respond, the namespace does not exist, or no worker has created the schedule yet.
pub async fn trigger_run(client: &Client, task_queue: &str) -> anyhow::Result<String> {
    let id = names::retention_schedule(task_queue);
    let schedule = client.get_schedule_handle(&id);
    let before = match describe(&schedule, &id).await {
        Err(ScheduleError::Rpc(status)) if status.code() == Code::NotFound => {
            check_namespace(&status)?;
            bail!("there is no schedule {id}: `tidings worker` creates it when it starts")
        }
        found => found.with_context(|| format!("schedule {id}"))?,
    };
    for running in before.running_actions() {
        let workflow = client.get_workflow_handle::<RetentionRun>(running.workflow_id.as_str());
        let span = call_span("describe", &running.workflow_id);
        let described = workflow.describe(WorkflowDescribeOptions::default()).instrument(span).await?;
        if described.status() == WorkflowExecutionStatus::Running {
            return Ok(running.workflow_id);
        }
    }
    let triggered =
        schedule.trigger(POLICY, TriggerScheduleOptions::default()).instrument(call_span("trigger_schedule", &id));
    triggered.await.with_context(|| format!("schedule {id}"))?;
    let last = before.recent_actions().pop();
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        let latest = describe(&schedule, &id).await?.recent_actions().pop();
        if let Some(started) = latest.filter(|latest| Some(latest) != last.as_ref()) {
            return Ok(started.workflow_id);
        }
        sleep(LOOK).await;
    }
    bail!("schedule {id} has started nothing within {} s; see the Temporal UI for the reason", PATIENCE.as_secs())
}

const POLICY: ScheduleOverlapPolicy = ScheduleOverlapPolicy::Skip;
