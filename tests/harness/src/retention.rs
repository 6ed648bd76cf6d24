//! The retention workflow in an environment, and records that are old enough to expire.

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use temporalio_client::{Client, WorkflowHandle, WorkflowStartOptions};
use tidings::registration;
use tidings_activities::{RetentionActivities, retention::RetentionLimits};
use tidings_model::{
    Event, Key, names,
    process::{ProcessProfile, ProcessRole},
    records::{AuditActor, CloseRequest},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_store::Store;
use tidings_workflows::{CarriedState, RetentionRun};

use crate::{
    env::{Env, event},
    worker::Running,
};

/// What a worker of a test works with.
#[must_use]
pub fn worker_profile() -> ProcessProfile {
    ProcessProfile::new(ProcessRole::Worker, "test", 1, names::TASK_QUEUE)
}

impl<S: Store> Env<S> {
    /// Starts the production worker of the retention workflow.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn start_retention(&self, retention: RetentionLimits) -> Result<Running> {
        let activities = RetentionActivities {
            store: self.store.clone(),
            retention,
            task_queue: names::TASK_QUEUE.to_owned(),
            names: self.settings.names.clone(),
            own: worker_profile(),
        };
        Running::start(self.temporal.clone(), registration::retention_worker(names::TASK_QUEUE, activities)?)
    }

    /// The retention workflow.
    #[must_use]
    pub fn retention_run(&self) -> WorkflowHandle<Client, RetentionRun> {
        self.temporal.get_workflow_handle(names::retention_schedule(names::TASK_QUEUE))
    }

    /// Starts the retention workflow by hand.
    ///
    /// # Errors
    /// When it runs already or the server does not answer.
    pub async fn run_retention(&self) -> Result<()> {
        let id = names::retention_schedule(names::TASK_QUEUE);
        let options = WorkflowStartOptions::new(id.clone(), id).build();
        self.temporal.start_workflow(RetentionRun::run, CarriedState::default(), options).await?;
        Ok(())
    }

    /// Records a digest with these events as sent at `at`. `number` distinguishes the digests of a key.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn sent_before(&self, key: &Key, number: u64, ids: &[String], at: Timestamp) -> Result<()> {
        let digest_id = key.digest_id("before", number);
        let window = Window { key: key.clone(), digest_id, opened_at: at, due_at: at };
        let read = |id: &String| Event::from_wire(event(key, id), None).map(|(_, event)| event);
        let events = ids.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(|invalid| anyhow!("{invalid:?}"))?;
        let closed = WindowEnd { outcome: DigestOutcome::Sent, why: String::new() };
        let closing = CloseRequest {
            window: &window,
            events: &events,
            closed: &closed,
            by: AuditActor::Tidings,
            return_events: false,
            planned: None,
            now: at,
        };
        self.store.close_digest(closing).await?;
        Ok(())
    }
}
