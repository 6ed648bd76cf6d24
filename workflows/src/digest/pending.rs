//! Events in workflow state, waiting for their window's claim (rule 5).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_model::{Event, EventContent, Retract};

/// Limit per activity call, and per window in workflow state.
pub const PAGE_EVENTS: usize = 500;
/// Limit as JSON. Temporal warns at 512 KiB per payload and rejects 2 MiB.
pub const PAGE_BYTES: usize = 256 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventArrival {
    pub at: Timestamp,
    /// Start of the run, if the event arrived in its first workflow task. For the plan and the ledger; the
    /// workflow's own decisions use `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    pub event: Event,
    /// JSON size, computed once: a large window would otherwise do it in each step.
    #[serde(skip)]
    bytes: usize,
}

/// Ordered by arrival, each `event_id` once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "VecDeque<EventArrival>", into = "VecDeque<EventArrival>")]
pub(crate) struct PendingEvents {
    arrivals: VecDeque<EventArrival>,
    ids: BTreeSet<String>,
    bytes: usize,
}

impl EventArrival {
    pub fn opens_at(&self) -> Timestamp {
        self.started_at.unwrap_or(self.at)
    }
}

impl PendingEvents {
    /// Appends an event. If its id is already pending, merges different content into the existing event,
    /// which keeps its place. Returns `false` if nothing changed.
    pub fn push(&mut self, event: Event, at: Timestamp, started_at: Option<Timestamp>) -> bool {
        if !self.ids.insert(event.event_id.clone()) {
            return self.merge(event);
        }
        let bytes = size(&event);
        self.bytes += bytes;
        self.arrivals.push_back(EventArrival { at, started_at, event, bytes });
        true
    }

    fn merge(&mut self, event: Event) -> bool {
        let arrival = self.arrivals.iter_mut().find(|arrival| arrival.event.event_id == event.event_id);
        let Some(arrival) = arrival.filter(|arrival| arrival.event != event) else { return false };
        let mut merged = arrival.event.clone();
        merged.merge(event);
        let changed = merged != arrival.event;
        let bytes = size(&merged);
        self.bytes = self.bytes - arrival.bytes + bytes;
        (arrival.event, arrival.bytes) = (merged, bytes);
        changed
    }

    pub fn event(&self, event_id: &str) -> Option<&Event> {
        self.ids.get(event_id)?;
        self.events().find(|event| event.event_id == event_id)
    }

    pub fn first(&self) -> Option<&EventArrival> {
        self.arrivals.front()
    }

    pub fn last(&self) -> Option<&EventArrival> {
        self.arrivals.back()
    }

    pub fn arrived_at(&self, index: usize) -> Option<Timestamp> {
        self.arrivals.get(index).map(|arrival| arrival.at)
    }

    pub fn urgent_at(&self, count: usize) -> Option<Timestamp> {
        self.arrivals.iter().take(count).find(|arrival| arrival.event.urgent).map(|arrival| arrival.at)
    }

    /// A page of covered events. A retract by id only covers events that occurred by its time in `until`.
    pub fn covered_by(&self, retracts: &[Retract], until: &BTreeMap<String, Timestamp>) -> Vec<Event> {
        let in_time = |retract: &Retract, event: &Event| match retract {
            Retract::Event(id) => until.get(id).is_none_or(|until| !event.occurred_after(*until)),
            Retract::EventUntil { .. } | Retract::Entity { .. } => true,
        };
        let covers = |retract: &Retract, event: &Event| retract.covers(event) && in_time(retract, event);
        let covered = |arrival: &&EventArrival| retracts.iter().any(|retract| covers(retract, &arrival.event));
        let mut bytes = 0;
        let fits = |arrival: &&EventArrival| {
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

    /// JSON size of all events.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn contents_after(&self, count: usize) -> (Vec<String>, Vec<EventContent>) {
        contents(self.events().skip(count))
    }

    pub fn urgent_contents(&self) -> (Vec<String>, Vec<EventContent>) {
        contents(self.events().filter(|event| event.urgent))
    }

    pub fn with_contents(&self, contents: &BTreeMap<&str, &EventContent>) -> Vec<String> {
        self.ids_of(|event| contents.get(event.event_id.as_str()).is_some_and(|asked| event.content() == **asked))
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.arrivals.iter().map(|arrival| &arrival.event)
    }

    fn ids_of(&self, is_wanted: impl Fn(&Event) -> bool) -> Vec<String> {
        self.events().filter(|event| is_wanted(event)).map(|event| event.event_id.clone()).collect()
    }

    /// How many of the first `most` events fit into a page. At least one, if any is pending.
    pub fn page_len(&self, most: usize) -> usize {
        let mut bytes = 0;
        let fits = |arrival: &&EventArrival| {
            bytes += arrival.bytes;
            bytes <= PAGE_BYTES
        };
        let most = most.min(PAGE_EVENTS).min(self.len());
        self.arrivals.iter().take(most).take_while(fits).count().max(most.min(1))
    }

    pub fn head(&self, count: usize) -> Vec<Event> {
        self.events().take(count).cloned().collect()
    }

    pub fn into_events(self) -> Vec<Event> {
        self.arrivals.into_iter().map(|arrival| arrival.event).collect()
    }

    pub fn overflows(&self) -> bool {
        self.len() > PAGE_EVENTS || self.bytes > PAGE_BYTES
    }

    pub fn drop_head(&mut self, count: usize) {
        drop(self.take_head(count));
    }

    /// Removes the first `taken` events. If one changed since it was `asked`, it becomes pending again.
    pub fn drop_taken(&mut self, asked: &[Event], taken: usize) {
        for (arrival, asked) in self.take_head(taken).into_iter().zip(asked) {
            if arrival.event != *asked {
                self.push(arrival.event, arrival.at, arrival.started_at);
            }
        }
    }

    fn take_head(&mut self, count: usize) -> Vec<EventArrival> {
        let head: Vec<_> = self.arrivals.drain(..count.min(self.arrivals.len())).collect();
        for arrival in &head {
            self.ids.remove(&arrival.event.event_id);
            self.bytes -= arrival.bytes;
        }
        head
    }

    pub fn unchanged_ids(&self, events: &[Event]) -> Vec<String> {
        let asked: BTreeMap<_, _> = events.iter().map(|event| (event.event_id.as_str(), event)).collect();
        self.ids_of(|event| asked.get(event.event_id.as_str()).is_some_and(|asked| *asked == event))
    }

    pub fn count_in_head(&self, count: usize, event_ids: &[String]) -> usize {
        self.events().take(count).filter(|event| event_ids.contains(&event.event_id)).count()
    }

    pub fn remove_ids(&mut self, event_ids: &[String]) {
        let known: BTreeSet<_> = event_ids.iter().collect();
        self.arrivals.retain(|arrival| !known.contains(&arrival.event.event_id));
        self.ids.retain(|id| !known.contains(id));
        self.bytes = self.arrivals.iter().map(|arrival| arrival.bytes).sum();
    }
}

fn contents<'a>(events: impl Iterator<Item = &'a Event>) -> (Vec<String>, Vec<EventContent>) {
    events.take(PAGE_EVENTS).map(|event| (event.event_id.clone(), event.content())).unzip()
}

fn size(event: &Event) -> usize {
    serde_json::to_vec(event).map_or(0, |json| json.len())
}

impl From<VecDeque<EventArrival>> for PendingEvents {
    fn from(mut arrivals: VecDeque<EventArrival>) -> Self {
        let ids = arrivals.iter().map(|arrival| arrival.event.event_id.clone()).collect();
        for arrival in &mut arrivals {
            arrival.bytes = size(&arrival.event);
        }
        let bytes = arrivals.iter().map(|arrival| arrival.bytes).sum();
        Self { arrivals, ids, bytes }
    }
}

impl From<PendingEvents> for VecDeque<EventArrival> {
    fn from(pending: PendingEvents) -> Self {
        pending.arrivals
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

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

    /// The event with id `n` arrived in second `n`.
    fn pending(bytes: impl IntoIterator<Item = usize>) -> PendingEvents {
        let mut pending = PendingEvents::default();
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
            assert_eq!(pending.covered_by(&all, &BTreeMap::new()), pending.head(page));
        }
        let pending = pending([small; 3]);
        let first = [Retract::Event("1".into())];
        let covered = |until| pending.covered_by(&first, &[("1".to_owned(), until)].into());
        assert_eq!(pending.covered_by(&first, &BTreeMap::new()), [event(1, small)]);
        let occurred_at = event(1, small).occurred_at;
        assert_eq!(covered(occurred_at), [event(1, small)]);
        assert_eq!(covered(occurred_at - jiff::SignedDuration::from_millis(1)), []);
        assert_eq!((pending.page_len(0), pending.page_len(2)), (0, 2));
    }

    #[test]
    fn events_are_found_by_their_place() {
        let mut pending = pending([200; 501]);
        assert_eq!(pending.contents_after(499).0, ["499", "500"]);
        assert_eq!(pending.contents_after(499).1, [499, 500].map(|id| event(id, 200).content()));
        assert_eq!(pending.contents_after(0).0.len(), 500);
        assert_eq!((pending.arrived_at(2), pending.arrived_at(501)), (Some(second(2)), None));
        let ids = ["1", "2", "600"].map(str::to_owned);
        assert_eq!([0, 1, 2, 3].map(|count| pending.count_in_head(count, &ids)), [0, 0, 1, 2]);
        assert_eq!(pending.urgent_at(usize::MAX), None);
        pending.push(Event { urgent: true, ..event(600, 200) }, second(600), Some(second(550)));
        assert_eq!((pending.urgent_at(501), pending.urgent_at(502)), (None, Some(second(600))));
        assert_eq!(pending.last().map(EventArrival::opens_at), Some(second(550)));
        assert_eq!((pending.len(), pending.is_empty(), PendingEvents::default().is_empty()), (502, false, true));
    }

    /// The event with another title, a second later.
    fn corrected(event: &Event) -> Event {
        let payload = [("title".to_owned(), "corrected".into())].into_iter().collect();
        Event { payload, occurred_at: event.occurred_at + jiff::SignedDuration::from_secs(1), ..event.clone() }
    }

    #[test]
    fn other_content_of_a_pending_id_is_merged_in_its_place() {
        let mut pending = pending([200; 3]);
        let first = event(0, 200);
        assert!(!pending.push(first.clone(), second(9), None), "equal content is a repetition");
        assert!(pending.push(corrected(&first), second(9), None));
        assert!(!pending.push(first.clone(), second(9), None), "an earlier content changes nothing");
        assert_eq!(pending.head(3), [corrected(&first), event(1, 200), event(2, 200)]);
        assert_eq!((pending.len(), pending.arrived_at(0)), (3, Some(second(0))));
        assert_eq!(pending.bytes(), size(&corrected(&first)) + 400);
        assert_eq!(pending.event("0"), Some(&corrected(&first)));
        assert_eq!(pending.event("7"), None);
    }

    #[test]
    fn what_changed_while_an_activity_had_it_is_pending_anew() {
        let mut pending = pending([200; 3]);
        let asked = pending.head(2);
        pending.push(corrected(&asked[0]), second(9), None);
        assert_eq!(pending.unchanged_ids(&asked), ["1"]);
        pending.drop_taken(&asked, 2);
        assert_eq!(pending.head(3), [event(2, 200), corrected(&asked[0])]);
        assert_eq!(pending.bytes(), 200 + size(&corrected(&asked[0])));
    }

    #[test]
    fn the_bytes_are_those_of_the_events_that_are_left() {
        let events: Vec<Event> = (0..6).map(|number| event(number, 200 + number)).collect();
        let bytes_of = |events: &[Event]| events.iter().map(size).sum::<usize>();
        let mut pending = PendingEvents::default();
        for event in &events {
            assert!(pending.push(event.clone(), Timestamp::UNIX_EPOCH, None));
        }
        assert!(!pending.push(events[0].clone(), Timestamp::UNIX_EPOCH, None));
        assert_eq!(pending.bytes(), bytes_of(&events));
        pending.drop_head(2);
        assert_eq!(pending.bytes(), bytes_of(&events[2..]));
        pending.remove_ids(&[events[3].event_id.clone()]);
        let left = [&events[2..3], &events[4..]].concat();
        assert_eq!((pending.bytes(), pending.head(9)), (bytes_of(&left), left.clone()));
        assert!(pending.push(events[3].clone(), Timestamp::UNIX_EPOCH, None));
        let carried: PendingEvents = serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap();
        assert_eq!(carried, pending);
    }
}
