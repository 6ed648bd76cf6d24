//! The events that wait in a workflow's state for their window's claim.

use std::collections::{BTreeSet, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{Event, Retract};

/// Events in one page: the most that one activity call carries, and that a window keeps in workflow state.
pub const PAGE_EVENTS: usize = 500;
/// Bytes of one page as JSON. Temporal warns about a payload at 512 KiB and refuses one of 2 MiB.
pub const PAGE_BYTES: usize = 256 * 1024;

/// An event and when a worker read it, by the server's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Arrival {
    pub at: Timestamp,
    /// The start of the run, if the event came in the run's first workflow task. The plan and the ledger use this time; the
    /// workflow's own decisions use `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    pub event: Event,
}

/// Unclaimed events in the order of arrival, each `event_id` once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "VecDeque<Arrival>", into = "VecDeque<Arrival>")]
pub(crate) struct Pending {
    arrivals: VecDeque<Arrival>,
    ids: BTreeSet<String>,
    bytes: usize,
}

impl Arrival {
    /// The opening time of a window that begins with this event.
    pub fn opens_at(&self) -> Timestamp {
        self.started_at.unwrap_or(self.at)
    }
}

impl Pending {
    /// Appends an event; `false` if its id is already here.
    pub fn push(&mut self, event: Event, at: Timestamp, started_at: Option<Timestamp>) -> bool {
        if !self.ids.insert(event.event_id.clone()) {
            return false;
        }
        self.bytes += size(&event);
        self.arrivals.push_back(Arrival { at, started_at, event });
        true
    }

    pub fn first(&self) -> Option<&Arrival> {
        self.arrivals.front()
    }

    pub fn last(&self) -> Option<&Arrival> {
        self.arrivals.back()
    }

    /// The arrival of the event at this place.
    pub fn arrived_at(&self, index: usize) -> Option<Timestamp> {
        self.arrivals.get(index).map(|arrival| arrival.at)
    }

    /// The arrival of the first urgent event among the first `count`.
    pub fn urgent_at(&self, count: usize) -> Option<Timestamp> {
        self.arrivals.iter().take(count).find(|arrival| arrival.event.urgent).map(|arrival| arrival.at)
    }

    /// A page of the events that the retracts cover.
    pub fn covered_by(&self, retracts: &[Retract]) -> Vec<Event> {
        let covered = |arrival: &&Arrival| retracts.iter().any(|retract| retract.covers(&arrival.event));
        let mut bytes = 0;
        let fits = |arrival: &&Arrival| {
            let first = bytes == 0;
            bytes += size(&arrival.event);
            first || bytes <= PAGE_BYTES
        };
        let page = self.arrivals.iter().filter(covered).take(PAGE_EVENTS).take_while(fits);
        page.map(|arrival| arrival.event.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub fn is_empty(&self) -> bool {
        self.arrivals.is_empty()
    }

    /// Bytes of all events as JSON.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A page of the ids that follow the first `count` events.
    pub fn event_ids_after(&self, count: usize) -> Vec<String> {
        self.arrivals.iter().skip(count).take(PAGE_EVENTS).map(|arrival| arrival.event.event_id.clone()).collect()
    }

    /// Number of the first `most` events that make a page: at least one, if any is pending.
    pub fn page_len(&self, most: usize) -> usize {
        let mut bytes = 0;
        let fits = |arrival: &&Arrival| {
            bytes += size(&arrival.event);
            bytes <= PAGE_BYTES
        };
        let most = most.min(PAGE_EVENTS).min(self.len());
        self.arrivals.iter().take(most).take_while(fits).count().max(most.min(1))
    }

    /// A copy of the first `count` events.
    pub fn head(&self, count: usize) -> Vec<Event> {
        self.arrivals.iter().take(count).map(|arrival| arrival.event.clone()).collect()
    }

    pub fn into_events(self) -> Vec<Event> {
        self.arrivals.into_iter().map(|arrival| arrival.event).collect()
    }

    /// Reports more events than one page holds.
    pub fn overflows(&self) -> bool {
        self.len() > PAGE_EVENTS || self.bytes > PAGE_BYTES
    }

    /// Removes the first `count` events.
    pub fn drop_head(&mut self, count: usize) {
        for arrival in self.arrivals.drain(..count.min(self.arrivals.len())) {
            self.ids.remove(&arrival.event.event_id);
            self.bytes -= size(&arrival.event);
        }
    }

    /// Number of events with one of these ids among the first `count`.
    pub fn count_in_head(&self, count: usize, event_ids: &[String]) -> usize {
        self.arrivals.iter().take(count).filter(|arrival| event_ids.contains(&arrival.event.event_id)).count()
    }

    /// Removes the events with these ids.
    pub fn forget(&mut self, event_ids: &[String]) {
        let known: BTreeSet<_> = event_ids.iter().collect();
        let kept = std::mem::take(&mut self.arrivals).into_iter().filter(|a| !known.contains(&a.event.event_id));
        *self = kept.collect::<VecDeque<_>>().into();
    }
}

fn size(event: &Event) -> usize {
    serde_json::to_vec(event).map_or(0, |json| json.len())
}

impl From<VecDeque<Arrival>> for Pending {
    fn from(arrivals: VecDeque<Arrival>) -> Self {
        let ids = arrivals.iter().map(|arrival| arrival.event.event_id.clone()).collect();
        let bytes = arrivals.iter().map(|arrival| size(&arrival.event)).sum();
        Self { arrivals, ids, bytes }
    }
}

impl From<Pending> for VecDeque<Arrival> {
    fn from(pending: Pending) -> Self {
        pending.arrivals
    }
}
