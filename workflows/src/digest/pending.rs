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
    /// Bytes of the event as JSON. Counted once: a large window would count them all again with each step.
    #[serde(skip)]
    bytes: usize,
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
        let bytes = size(&event);
        self.bytes += bytes;
        self.arrivals.push_back(Arrival { at, started_at, event, bytes });
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
            bytes += arrival.bytes;
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
            bytes += arrival.bytes;
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
            self.bytes -= arrival.bytes;
        }
    }

    /// Number of events with one of these ids among the first `count`.
    pub fn count_in_head(&self, count: usize, event_ids: &[String]) -> usize {
        self.arrivals.iter().take(count).filter(|arrival| event_ids.contains(&arrival.event.event_id)).count()
    }

    /// Removes the events with these ids.
    pub fn forget(&mut self, event_ids: &[String]) {
        let known: BTreeSet<_> = event_ids.iter().collect();
        self.arrivals.retain(|arrival| !known.contains(&arrival.event.event_id));
        self.ids.retain(|id| !known.contains(id));
        self.bytes = self.arrivals.iter().map(|arrival| arrival.bytes).sum();
    }
}

fn size(event: &Event) -> usize {
    serde_json::to_vec(event).map_or(0, |json| json.len())
}

impl From<VecDeque<Arrival>> for Pending {
    fn from(mut arrivals: VecDeque<Arrival>) -> Self {
        let ids = arrivals.iter().map(|arrival| arrival.event.event_id.clone()).collect();
        for arrival in &mut arrivals {
            arrival.bytes = size(&arrival.event);
        }
        let bytes = arrivals.iter().map(|arrival| arrival.bytes).sum();
        Self { arrivals, ids, bytes }
    }
}

impl From<Pending> for VecDeque<Arrival> {
    fn from(pending: Pending) -> Self {
        pending.arrivals
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    /// An event whose JSON has this number of bytes.
    fn event(id: usize, bytes: usize) -> Event {
        let made = |fill: usize| -> Event {
            from_value(json!({"event_id": id.to_string(), "category": "comment", "occurred_at": "2026-01-01T00:00:00Z",
                              "payload": {"fill": "x".repeat(fill)}}))
            .unwrap()
        };
        let event = made(bytes - size(&made(0)));
        assert_eq!(size(&event), bytes);
        event
    }

    /// Events of these sizes. The one with id `n` arrived in second `n`.
    fn pending(bytes: impl IntoIterator<Item = usize>) -> Pending {
        let mut pending = Pending::default();
        for (id, bytes) in bytes.into_iter().enumerate() {
            pending.push(event(id, bytes), second(id), None);
        }
        pending
    }

    fn second(n: usize) -> Timestamp {
        Timestamp::from_second(i64::try_from(n).unwrap()).unwrap()
    }

    #[test]
    fn a_page_is_bounded_and_has_at_least_one_event() {
        const HALF: usize = 128 * 1024;
        let small = 200;
        for (sizes, page) in [
            (vec![], 0),
            (vec![small; 500], 500),
            (vec![small; 501], 500),
            (vec![HALF, HALF], 2),
            (vec![HALF, HALF + 1], 1),
            (vec![HALF, HALF, small], 2),
            (vec![3 * HALF], 1),
            (vec![3 * HALF, small], 1),
        ] {
            let (count, bytes): (usize, usize) = (sizes.len(), sizes.iter().sum());
            let pending = pending(sizes);
            assert_eq!(pending.page_len(usize::MAX), page, "{count} events, {bytes} bytes");
            assert_eq!(pending.page_len(1), page.min(1));
            assert_eq!(pending.overflows(), count > 500 || bytes > 2 * HALF, "{count} events, {bytes} bytes");
            let all: Vec<_> = (0..count).map(|id| Retract::Event(id.to_string())).collect();
            assert_eq!(pending.covered_by(&all), pending.head(page));
        }
        let pending = pending([small; 3]);
        assert_eq!(pending.covered_by(&[Retract::Event("1".into())]), [event(1, small)]);
        assert_eq!((pending.page_len(0), pending.page_len(2)), (0, 2));
    }

    #[test]
    fn events_are_found_by_their_place() {
        let mut pending = pending([200; 501]);
        assert_eq!(pending.event_ids_after(499), ["499", "500"]);
        assert_eq!(pending.event_ids_after(0).len(), 500);
        assert_eq!((pending.arrived_at(2), pending.arrived_at(501)), (Some(second(2)), None));
        let ids = ["1", "2", "600"].map(str::to_owned);
        assert_eq!([0, 1, 2, 3].map(|count| pending.count_in_head(count, &ids)), [0, 0, 1, 2]);
        assert_eq!(pending.urgent_at(usize::MAX), None);
        pending.push(Event { urgent: true, ..event(600, 200) }, second(600), Some(second(550)));
        assert_eq!((pending.urgent_at(501), pending.urgent_at(502)), (None, Some(second(600))));
        assert_eq!(pending.last().map(Arrival::opens_at), Some(second(550)));
        assert_eq!((pending.len(), pending.is_empty(), Pending::default().is_empty()), (502, false, true));
    }

    #[test]
    fn the_bytes_are_those_of_the_events_that_are_left() {
        let events: Vec<Event> = (0..6).map(|number| event(number, 200 + number)).collect();
        let bytes_of = |events: &[Event]| events.iter().map(size).sum::<usize>();
        let mut pending = Pending::default();
        for event in &events {
            assert!(pending.push(event.clone(), Timestamp::UNIX_EPOCH, None));
        }
        assert!(!pending.push(events[0].clone(), Timestamp::UNIX_EPOCH, None));
        assert_eq!(pending.bytes(), bytes_of(&events));
        pending.drop_head(2);
        assert_eq!(pending.bytes(), bytes_of(&events[2..]));
        pending.forget(&[events[3].event_id.clone()]);
        let left = [&events[2..3], &events[4..]].concat();
        assert_eq!((pending.bytes(), pending.head(9)), (bytes_of(&left), left.clone()));
        assert!(pending.push(events[3].clone(), Timestamp::UNIX_EPOCH, None));
        let carried: Pending = serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap();
        assert_eq!(carried, pending);
    }
}
