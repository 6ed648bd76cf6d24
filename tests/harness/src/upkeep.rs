//! The upkeep on a stage, and what is old enough for it.

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use temporalio_client::{Client, WorkflowHandle, WorkflowStartOptions};
use tidings::registration;
use tidings_activities::{UpkeepActivities, upkeep::Retention};
use tidings_model::{
    Event, Key,
    contract::{Closed, Outcome, Window},
    names,
    records::Closing,
};
use tidings_store::Store;
use tidings_workflows::{Carried, Upkeep};

use crate::env::{Env, Running, event};

impl<S: Store> Env<S> {
    /// The production worker of the upkeep.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn start_upkeep(&self, retention: Retention) -> Result<Running> {
        let activities = UpkeepActivities { store: self.store.clone(), retention };
        Running::start(self.temporal.clone(), registration::upkeep(names::TASK_QUEUE, activities)?)
    }

    /// The upkeep.
    #[must_use]
    pub fn upkeep(&self) -> WorkflowHandle<Client, Upkeep> {
        self.temporal.get_workflow_handle(names::upkeep(names::TASK_QUEUE))
    }

    /// Starts the upkeep by hand.
    ///
    /// # Errors
    /// When one runs, or the server does not answer.
    pub async fn run_upkeep(&self) -> Result<()> {
        let id = names::upkeep(names::TASK_QUEUE);
        let options = WorkflowStartOptions::new(id.clone(), id).build();
        self.temporal.start_workflow(Upkeep::run, Carried::default(), options).await?;
        Ok(())
    }

    /// A digest of so many events that was sent at that time, in the ledger alone. Its number tells it from the key's others.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn sent_before(&self, key: &Key, number: u64, ids: &[String], at: Timestamp) -> Result<()> {
        let digest_id = key.digest_id("before", number);
        let window = Window { key: key.clone(), digest_id, opened_at: at, due_at: at };
        let read = |id: &String| Event::from_wire(event(key, id), None).map(|(_, event)| event);
        let events = ids.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(|invalid| anyhow!("{invalid:?}"))?;
        let closed = Closed { outcome: Outcome::Sent, why: String::new() };
        let closing =
            Closing { window: &window, events: &events, closed: &closed, by: "", return_events: false, now: at };
        self.store.close(closing).await?;
        Ok(())
    }
}
