//! Reads the events of an earlier run back from its history: what a workflow could neither carry nor stash while the
//! store was down.

use futures::StreamExt;
use jiff::Timestamp;
use temporalio_client::{NamespacedClient, WorkflowExecutionInfo, WorkflowFetchHistoryOptions};
use temporalio_common::protos::temporal::api::{common::v1::Payloads, history::v1::history_event::Attributes};
use temporalio_sdk::activities::ActivityContext;
use tidings_workflows::{
    Carried, Event, Inbound, PAGE_EVENTS,
    contract::{Closed, Outcome, Window},
    names::SIGNAL,
};
use uuid::Uuid;

use crate::{
    digest::{DigestActivities, Error},
    store::Closing,
};

impl DigestActivities {
    /// Stashes the run's carried events and those of all its signals.
    pub(crate) async fn read_back(&self, ctx: &ActivityContext, window: &Window, run: &str) -> Result<(), Error> {
        let failed = |why: String| Error::History { run: run.to_owned(), why };
        let client = ctx.client();
        let execution = WorkflowExecutionInfo::builder()
            .namespace(client.namespace())
            .workflow_id(window.key.workflow_id())
            .run_id(run)
            .build();
        let mut history = execution.bind_untyped(client).fetch_history(WorkflowFetchHistoryOptions::default());
        let mut page = Vec::new();
        while let Some(event) = history.next().await {
            let event = event.map_err(|error| failed(error.to_string()))?;
            page.extend(events(event.attributes, window));
            if page.len() >= PAGE_EVENTS {
                self.stash_or_return(window, &std::mem::take(&mut page)).await?;
            }
        }
        self.stash_or_return(window, &page).await
    }

    /// What came too late for the window's digest is returned: it joins the key's next claim.
    async fn stash_or_return(&self, window: &Window, page: &[Event]) -> Result<(), Error> {
        let now = Timestamp::now();
        let taken = usize::try_from(self.store.stash(window, page, now).await?).unwrap_or(usize::MAX);
        let Some(late @ [first, ..]) = page.get(taken..) else { return Ok(()) };
        let digest_id = Uuid::new_v5(&window.digest_id, first.event_id.as_bytes());
        let window = Window { digest_id, ..window.clone() };
        let why = "the mail of their window was made before they were read back".to_owned();
        let closed = Closed { outcome: Outcome::Skipped, why };
        let closing = Closing { window: &window, events: late, closed: &closed, by: "", return_events: true, now };
        self.store.close(closing).await?;
        Ok(())
    }
}

fn events(attributes: Option<Attributes>, window: &Window) -> Vec<Event> {
    let payloads = |payloads: Option<Payloads>| payloads.map(|payloads| payloads.payloads).unwrap_or_default();
    match attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => {
            Carried::read(&payloads(started.input)).into_events()
        }
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) if signal.signal_name == SIGNAL => {
            // Refused ones were refused, and numbered, when they came.
            Inbound::from(payloads(signal.input)).for_key(&window.key, 0).events
        }
        _ => Vec::new(),
    }
}
