//! Records opens and clicks after the response, batched into one transaction per second.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tidings_model::{
    delivery_events::{Kind, Report, Reported, WebhookRequest, Which},
    settings::Settings,
};
use tidings_services::delivery_events;
use tidings_store::Store;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
    time::{sleep, timeout},
};
use uuid::Uuid;

use crate::metrics;

/// How long events wait to be batched. A crash loses this much.
const PAUSE: Duration = Duration::from_secs(1);
/// Queue length. If the queue is full, further events are not counted.
const WAITING: usize = 20_000;
/// Events per transaction.
const BATCH: usize = 500;
/// Transaction timeout. The batch is lost afterwards.
const STORE: Duration = Duration::from_secs(10);

/// Accepts events without blocking. Clones share one queue.
#[derive(Clone, Debug)]
pub struct Recorder(Sender<Seen>);

enum Seen {
    Counted(Tracked),
    /// The reader objects to tracking.
    Objection {
        tenant: String,
        message: Uuid,
    },
}

struct Tracked {
    tenant: String,
    message: Uuid,
    report: Report,
}

impl Recorder {
    /// The task ends once all clones are dropped and the queue is empty.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, settings: Arc<Settings>) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), tokio::spawn(run(receiver, store, settings)))
    }

    /// Drops the event if the queue is full, because a redirect should not wait.
    pub(super) fn record(&self, tenant: String, message: Uuid, report: Report) {
        self.push(Seen::Counted(Tracked { tenant, message, report }));
    }

    /// This will delete when the recipient last opened a digest of the message's key.
    pub(super) fn forget(&self, tenant: String, message: Uuid) {
        self.push(Seen::Objection { tenant, message });
    }

    fn push(&self, seen: Seen) {
        if self.0.try_send(seen).is_err() {
            metrics::tracked("dropped", 1);
        }
    }
}

async fn run(mut receiver: Receiver<Seen>, store: Arc<dyn Store>, settings: Arc<Settings>) {
    let mut seen = Vec::new();
    while receiver.recv_many(&mut seen, BATCH).await > 0 {
        if !receiver.is_closed() && seen.len() < BATCH {
            sleep(PAUSE).await;
            while seen.len() < BATCH
                && let Ok(next) = receiver.try_recv()
            {
                seen.push(next);
            }
        }
        let (mut events, mut objections) = (Vec::new(), HashSet::new());
        for seen in seen.drain(..) {
            match seen {
                Seen::Counted(event) => events.push(event),
                Seen::Objection { tenant, message } => {
                    objections.insert((tenant, message));
                }
            }
        }
        if !events.is_empty() {
            mark_machines(&mut events);
            write(&*store, &settings, events).await;
        }
        forget(&*store, objections).await;
    }
}

/// Several links of one message within a second: this is faster than people.
fn mark_machines(events: &mut [Tracked]) {
    let mut links: HashMap<Uuid, HashSet<String>> = HashMap::new();
    for event in events.iter() {
        links.entry(event.message).or_default().extend(event.report.url.clone());
    }
    for event in events.iter_mut().filter(|event| event.report.kind == Kind::Clicked) {
        if links.get(&event.message).is_some_and(|links| links.len() > 1) {
            event.report.machine = Some(true);
        }
    }
}

/// Records events in one transaction, like those from a webhook.
async fn write(store: &dyn Store, settings: &Settings, events: Vec<Tracked>) {
    let all = events.len();
    let reported = |Tracked { tenant, message, report }| {
        let of = vec![Which::Id(message)];
        Reported { relay: None, reports_for: Vec::new(), tenant: Some(tenant), of, report, event_id: None }
    };
    let events = events.into_iter().map(reported).collect();
    let request = WebhookRequest { relay: String::new(), events, token: None, unusable: Vec::new() };
    let recording = delivery_events::receive(store, settings, request, Timestamp::now());
    match timeout(STORE, recording).await {
        Ok(Ok(received)) => {
            let received = received.unwrap_or_default();
            metrics::tracked("new", received.new);
            metrics::tracked("again", received.again);
            metrics::tracked("unknown", received.unknown);
        }
        Ok(Err(error)) => lost(all, &error.to_string()),
        Err(_) => lost(all, "the database does not answer"),
    }
}

/// Runs after events of the same batch, so these are deleted, too.
async fn forget(store: &dyn Store, objections: HashSet<(String, Uuid)>) {
    for (tenant, message) in objections {
        match timeout(STORE, store.forget_reading(&tenant, message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%message, %error, "an objection to being counted is lost"),
            Err(_) => tracing::warn!(%message, "an objection to being counted is lost: the database does not answer"),
        }
    }
}

fn lost(events: usize, why: &str) {
    metrics::tracked("dropped", events);
    tracing::warn!(events, why, "openings and clicks are not counted");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(message: u128, kind: Kind, url: Option<&str>) -> Tracked {
        let report = Report { url: url.map(str::to_owned), ..Report::new(kind, Timestamp::UNIX_EPOCH) };
        Tracked { tenant: "acme".into(), message: Uuid::from_u128(message), report }
    }

    #[test]
    fn two_links_of_a_message_at_once_are_a_machines() {
        let click = |message, url| tracked(message, Kind::Clicked, Some(url));
        let mut events =
            [click(1, "a"), click(1, "b"), tracked(1, Kind::Opened, None), click(2, "a"), click(2, "a"), click(3, "b")];
        mark_machines(&mut events);
        let machines = events.map(|event| event.report.machine);
        assert_eq!(machines, [Some(true), Some(true), None, None, None, None]);
    }
}
