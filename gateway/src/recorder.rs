//! Records opens and clicks after the response, batched into one transaction per second.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tidings_model::{
    delivery_events::{CheckedDeliveryEvent, DeliveryReport, MessageReference, ReportKind, WebhookRequest},
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
pub struct TrackingRecorder(Sender<TrackingRequest>);

enum TrackingRequest {
    Counted(TrackingEvent),
    /// The reader objects to tracking.
    Objection {
        tenant: String,
        message: Uuid,
    },
}

struct TrackingEvent {
    tenant: String,
    message: Uuid,
    report: DeliveryReport,
}

impl TrackingRecorder {
    /// The task ends once all clones are dropped and the queue is empty.
    #[must_use]
    pub fn start(store: Arc<dyn Store>, settings: Arc<Settings>) -> (Self, JoinHandle<()>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), tokio::spawn(run(receiver, store, settings)))
    }

    /// Drops the event if the queue is full, because a redirect should not wait.
    pub(super) fn record(&self, tenant: String, message: Uuid, report: DeliveryReport) {
        self.push(TrackingRequest::Counted(TrackingEvent { tenant, message, report }));
    }

    /// This will delete when the recipient last opened a digest of the message's key.
    pub(super) fn forget_reading(&self, tenant: String, message: Uuid) {
        self.push(TrackingRequest::Objection { tenant, message });
    }

    fn push(&self, seen: TrackingRequest) {
        if self.0.try_send(seen).is_err() {
            metrics::count_tracked("dropped", 1);
        }
    }
}

async fn run(mut receiver: Receiver<TrackingRequest>, store: Arc<dyn Store>, settings: Arc<Settings>) {
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
                TrackingRequest::Counted(event) => events.push(event),
                TrackingRequest::Objection { tenant, message } => {
                    objections.insert((tenant, message));
                }
            }
        }
        if !events.is_empty() {
            mark_machines(&mut events);
            record_events(&*store, &settings, events).await;
        }
        forget_readers(&*store, objections).await;
    }
}

/// Several links of one message within a second: this is faster than people.
fn mark_machines(events: &mut [TrackingEvent]) {
    let mut links: HashMap<Uuid, HashSet<String>> = HashMap::new();
    for event in events.iter() {
        links.entry(event.message).or_default().extend(event.report.url.clone());
    }
    for event in events.iter_mut().filter(|event| event.report.kind == ReportKind::Clicked) {
        if links.get(&event.message).is_some_and(|links| links.len() > 1) {
            event.report.machine = Some(true);
        }
    }
}

/// Records events in one transaction, like those from a webhook.
async fn record_events(store: &dyn Store, settings: &Settings, events: Vec<TrackingEvent>) {
    let all = events.len();
    let reported = |TrackingEvent { tenant, message, report }| {
        let of = vec![MessageReference::Id(message)];
        CheckedDeliveryEvent { relay: None, reports_for: Vec::new(), tenant: Some(tenant), of, report, event_id: None }
    };
    let events = events.into_iter().map(reported).collect();
    let request = WebhookRequest { relay: String::new(), events, token: None, unusable: Vec::new() };
    let recording = delivery_events::record_webhook(store, settings, request, Timestamp::now());
    match timeout(STORE, recording).await {
        Ok(Ok(received)) => {
            let received = received.unwrap_or_default();
            metrics::count_tracked("new", received.new);
            metrics::count_tracked("again", received.again);
            metrics::count_tracked("unknown", received.unknown);
        }
        Ok(Err(error)) => count_lost(all, &error.to_string()),
        Err(_) => count_lost(all, "the database does not answer"),
    }
}

/// Runs after events of the same batch, so these are deleted, too.
async fn forget_readers(store: &dyn Store, objections: HashSet<(String, Uuid)>) {
    for (tenant, message) in objections {
        match timeout(STORE, store.forget_reading(&tenant, message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%message, %error, "tracking opt-out lost"),
            Err(_) => tracing::warn!(%message, "tracking opt-out lost: the database does not respond"),
        }
    }
}

fn count_lost(events: usize, why: &str) {
    metrics::count_tracked("dropped", events);
    tracing::warn!(events, why, "cannot count opens and clicks");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(message: u128, kind: ReportKind, url: Option<&str>) -> TrackingEvent {
        let report = DeliveryReport { url: url.map(str::to_owned), ..DeliveryReport::new(kind, Timestamp::UNIX_EPOCH) };
        TrackingEvent { tenant: "acme".into(), message: Uuid::from_u128(message), report }
    }

    #[test]
    fn two_links_of_a_message_at_once_are_a_machines() {
        let click = |message, url| tracked(message, ReportKind::Clicked, Some(url));
        let mut events = [
            click(1, "a"),
            click(1, "b"),
            tracked(1, ReportKind::Opened, None),
            click(2, "a"),
            click(2, "a"),
            click(3, "b"),
        ];
        mark_machines(&mut events);
        let machines = events.map(|event| event.report.machine);
        assert_eq!(machines, [Some(true), Some(true), None, None, None, None]);
    }
}
