//! Reads back from its history what an earlier run was told: what a workflow could neither carry nor stash while the
//! store was down, and what a terminated run left behind.

use futures::{Stream, StreamExt, TryStreamExt};
use jiff::Timestamp;
use temporalio_client::{
    Client, NamespacedClient, WorkflowExecutionInfo, WorkflowFetchHistoryOptions, errors::WorkflowInteractionError,
};
use temporalio_common::protos::temporal::api::{common::v1::Payloads, history::v1::history_event::Attributes};
use temporalio_sdk::activities::ActivityContext;
use tidings_model::{
    Event, Key,
    contract::{Closed, Outcome, StashInput, Window},
    names::SIGNAL,
    records::Closing,
};
use tidings_workflows::{Carried, Inbound, PAGE_EVENTS, Told, Unreadable};
use uuid::Uuid;

use crate::digest::{DigestActivities, Error};

/// What `run` of the key was told, in the order of its history.
///
/// # Errors
/// The history cannot be read, or is gone.
pub fn told(client: Client, key: &Key, run: &str) -> impl Stream<Item = Result<Told, Error>> + Send {
    let (key, run) = (key.clone(), run.to_owned());
    let execution = WorkflowExecutionInfo::builder()
        .namespace(client.namespace())
        .workflow_id(key.workflow_id())
        .run_id(&run)
        .build();
    let history = execution.bind_untyped(client).fetch_history(WorkflowFetchHistoryOptions::default());
    history.map(move |event| {
        let unreadable = |why: String| Error::History { run: run.clone(), why };
        match event {
            Ok(event) => moment(event.attributes, &key).map_err(|error| unreadable(error.to_string())),
            Err(WorkflowInteractionError::NotFound(_)) => Err(Error::HistoryGone { run: run.clone() }),
            Err(error) => Err(unreadable(error.to_string())),
        }
    })
}

fn moment(attributes: Option<Attributes>, key: &Key) -> Result<Told, Unreadable> {
    let payloads = |payloads: Option<Payloads>| payloads.map(|payloads| payloads.payloads).unwrap_or_default();
    match attributes {
        Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) => Carried::told(started),
        Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) if signal.signal_name == SIGNAL => {
            // Refused ones were refused, and numbered, when they came.
            let sorted = Inbound::from(payloads(signal.input)).for_key(key, 0);
            Ok(Told { events: sorted.events, retracts: sorted.retracts, runs: Vec::new() })
        }
        _ => Ok(Told::default()),
    }
}

impl DigestActivities {
    /// Stashes the run's carried events and those of all its signals, and keeps its retracts.
    pub(crate) async fn read_back(&self, ctx: &ActivityContext, input: &StashInput, run: &str) -> Result<(), Error> {
        let key = &input.window.key;
        let mut told = std::pin::pin!(told(ctx.client(), key, run));
        let mut page = Vec::new();
        while let Some(Told { events, retracts, .. }) = told.try_next().await? {
            if !retracts.is_empty() {
                self.store.put_retracts(key, &retracts, Timestamp::now()).await?;
            }
            page.extend(events);
            if page.len() >= PAGE_EVENTS {
                self.stash_or_return(input, &std::mem::take(&mut page)).await?;
            }
        }
        self.stash_or_return(input, &page).await
    }

    /// What came too late for the window's digest is returned: it joins the key's next claim.
    async fn stash_or_return(&self, input: &StashInput, page: &[Event]) -> Result<(), Error> {
        let (window, now) = (&input.window, Timestamp::now());
        let taken = self.store.stash(window, page, input.delivering, now).await?;
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        let Some(late @ [first, ..]) = page.get(taken..) else { return Ok(()) };
        let digest_id = Uuid::new_v5(&window.digest_id, first.event_id.as_bytes());
        let window = Window { digest_id, ..window.clone() };
        let why = "their window had its mail, or its end, before they were read back".to_owned();
        let closed = Closed { outcome: Outcome::Skipped, why };
        let closing = Closing { window: &window, events: late, closed: &closed, by: "", return_events: true, now };
        self.store.set_aside(closing, input.delivering).await?;
        Ok(())
    }
}
