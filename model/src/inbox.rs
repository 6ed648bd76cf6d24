//! The gateway's inbox: durable events not yet sent to their workflow.
//!
//! A forwarder leases a key, sends its oldest events in one signal, and returns the lease: a time after which
//! the key is free. All decisions are pure functions.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tidings_proto::v1;

use crate::{
    Event, Key, Retract, StoredWait,
    limits::{self, InvalidField},
};

/// Protects against a forwarder that vanished.
pub const LEASE: Duration = Duration::from_secs(30);
/// Between two signals to a key: five per second.
const SIGNAL_INTERVAL: SignedDuration = SignedDuration::from_millis(200);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_secs(30);
/// Poll interval of an idle forwarder.
pub const LOOK: Duration = Duration::from_millis(250);

impl StoredWait {
    /// No backoff is longer.
    pub const INBOX_LEASE: Self = Self::with_longest(LEASE);
}

closed_set! {
    pub enum InboxItemKind {
        Event = "event",
        Retract = "retract",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxItem {
    pub key: Key,
    pub kind: InboxItemKind,
    /// The proto3-JSON without the key.
    pub json: String,
}

impl InboxItem {
    /// Validates an event.
    ///
    /// # Errors
    /// Names the first field that is missing or exceeds its limit.
    pub fn from_wire_event(wire: v1::Event) -> Result<Self, InvalidField> {
        let (key, event) = Event::from_wire(wire, None)?;
        Self::from_event(key, &event)
    }

    /// # Errors
    /// The payload cannot be written as JSON.
    pub fn from_event(key: Key, event: &Event) -> Result<Self, InvalidField> {
        Ok(Self { key, kind: InboxItemKind::Event, json: to_json(event)? })
    }

    /// Validates a retract.
    ///
    /// # Errors
    /// As for [`InboxItem::from_wire_event`].
    pub fn from_wire_retract(wire: v1::Retract) -> Result<Self, InvalidField> {
        let (key, _) = Retract::from_wire(wire.clone(), None)?;
        // The key is implied by the workflow id.
        let keyless = v1::Retract { tenant: String::new(), user: String::new(), digest: String::new(), ..wire };
        Ok(Self { key, kind: InboxItemKind::Retract, json: to_json(&keyless)? })
    }
}

fn to_json(content: &impl Serialize) -> Result<String, InvalidField> {
    serde_json::to_string(content).map_err(|error| InvalidField::new("payload", error.to_string()))
}

/// A queued item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingItem {
    /// The order of arrival.
    pub id: i64,
    pub kind: InboxItemKind,
    pub json: String,
}

/// How many items fit into one signal: at most 500, and 256 KiB of JSON.
#[must_use]
pub fn batch_len(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut bytes = r#"{"events":[],"retracts":[]}"#.len();
    let fits = |size: &usize| {
        bytes += size + ",".len();
        bytes <= limits::BATCH_BYTES
    };
    sizes.into_iter().take(limits::BATCH_EVENTS).take_while(fits).count()
}

/// How many items one signal may carry. Within a signal, events apply before retracts. So if an item retracts
/// an id, a later event with this id (e.g. an alert firing again) has to wait for the next signal.
#[must_use]
pub fn ordered_len(items: &[PendingItem]) -> usize {
    #[derive(Deserialize)]
    struct EventIdField {
        #[serde(default, alias = "eventId")]
        event_id: String,
    }
    let id = |item: &PendingItem| {
        serde_json::from_str(&item.json).map(|EventIdField { event_id }| event_id).unwrap_or_default()
    };
    let mut taken_back = BTreeSet::new();
    let follows = |item: &PendingItem| match item.kind {
        InboxItemKind::Event => !taken_back.is_empty() && taken_back.contains(&id(item)),
        InboxItemKind::Retract => {
            taken_back.extend(Some(id(item)).filter(|id| !id.is_empty()));
            false
        }
    };
    items.iter().position(follows).unwrap_or(items.len())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLease {
    pub free_at: Timestamp,
    pub failures: u32,
}

impl KeyLease {
    #[must_use]
    pub fn acquire_at(failures: u32, now: Timestamp) -> Self {
        Self { free_at: now.saturating_add(LEASE).unwrap_or(Timestamp::MAX), failures }
    }

    #[must_use]
    pub fn after_success(started: Timestamp) -> Self {
        Self { free_at: started.saturating_add(SIGNAL_INTERVAL).unwrap_or(Timestamp::MAX), failures: 0 }
    }

    /// Backs off for 1 s, doubling with each failure up to 30 s.
    #[must_use]
    pub fn after_failure(self, now: Timestamp) -> Self {
        let wait = SignedDuration::from_secs(1 << self.failures.min(5)).min(MAX_BACKOFF);
        Self { free_at: now.saturating_add(wait).unwrap_or(Timestamp::MAX), failures: self.failures.saturating_add(1) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedKey {
    pub key: Key,
    /// `None` if no forwarder held the key lately.
    pub lease: Option<KeyLease>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwarderStep {
    Lease(Vec<QueuedKey>),
    /// All keys are leased: poll again later.
    Wait(Duration),
}

/// `room` is how many more keys the forwarder can serve.
#[must_use]
pub fn next(found: Vec<QueuedKey>, room: usize, now: Timestamp) -> ForwarderStep {
    let held_until = |found: &QueuedKey| {
        found.lease.map(|lease| lease.free_at).filter(|at| StoredWait::INBOX_LEASE.is_active(*at, now))
    };
    let earliest = found.iter().filter_map(held_until).min();
    let free: Vec<_> = found.into_iter().filter(|found| held_until(found).is_none()).take(room).collect();
    if !free.is_empty() {
        return ForwarderStep::Lease(free);
    }
    let wait = earliest.map_or(LOOK, |at| Duration::try_from(at.duration_since(now)).unwrap_or(LOOK));
    ForwarderStep::Wait(wait.min(LOOK))
}

/// The items that wait in the inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = InboxDepth))]
pub struct InboxDepth {
    pub events: u64,
    pub bytes: u64,
    /// When the oldest item arrived, if any.
    pub oldest: Option<Timestamp>,
}

impl InboxDepth {
    #[must_use]
    pub fn oldest_seconds(&self, now: Timestamp) -> u64 {
        self.oldest.map_or(0, |at| u64::try_from(now.duration_since(at).as_secs()).unwrap_or(0))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboxLimits {
    pub bytes: u64,
    /// Of the oldest queued item.
    pub age: Duration,
    /// How long forwarded items can be forwarded again.
    pub keep: Duration,
}

impl Default for InboxLimits {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self { bytes: 4 << 30, age: day, keep: day * 3 }
    }
}

impl InboxLimits {
    /// `since` counts the bytes added after `depth` was measured.
    #[must_use]
    pub fn has_room(&self, depth: InboxDepth, since: u64, now: Timestamp) -> bool {
        depth.bytes.saturating_add(since) <= self.bytes && depth.oldest_seconds(now) <= self.age.as_secs()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + milliseconds).unwrap()
    }

    fn found(user: &str, free_at: Option<i64>) -> QueuedKey {
        let key = Key::new("acme".into(), "activity".into(), user.into()).unwrap();
        QueuedKey { key, lease: free_at.map(|free| KeyLease { free_at: at(free), failures: 0 }) }
    }

    #[test]
    fn a_forwarder_takes_the_free_keys_and_waits_for_the_next_one() {
        let (new, free, busy) = (found("a", None), found("b", Some(0)), found("c", Some(100)));
        let all = vec![busy.clone(), new.clone(), free.clone()];
        assert_eq!(next(all.clone(), 9, at(0)), ForwarderStep::Lease(vec![new.clone(), free]));
        assert_eq!(next(all, 1, at(0)), ForwarderStep::Lease(vec![new]));
        assert_eq!(next(vec![busy.clone()], 9, at(40)), ForwarderStep::Wait(Duration::from_millis(60)));
        assert_eq!(next(vec![found("c", Some(30_000))], 9, at(0)), ForwarderStep::Wait(LOOK));
        let ahead = found("d", Some(86_400_000));
        assert_eq!(
            next(vec![ahead.clone()], 9, at(0)),
            ForwarderStep::Lease(vec![ahead]),
            "a forwarder's clock was a day ahead"
        );
        assert_eq!(next(vec![], 9, at(0)), ForwarderStep::Wait(LOOK));
        assert_eq!(next(vec![busy], 9, at(100)), ForwarderStep::Lease(vec![found("c", Some(100))]));
    }

    #[test]
    fn a_key_gets_five_signals_a_second_and_waits_longer_after_failures() {
        assert_eq!(KeyLease::after_success(at(0)).free_at, at(200));
        let mut lease = KeyLease::acquire_at(0, at(0));
        assert_eq!(lease.free_at, at(30_000));
        let waits: Vec<_> = (0..7)
            .map(|_| {
                lease = lease.after_failure(at(0));
                lease.free_at.duration_since(at(0)).as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(KeyLease::after_success(at(0)).failures, 0);
    }

    #[test]
    fn an_inbox_is_full_by_bytes_or_by_age() {
        let limits = InboxLimits { bytes: 100, age: Duration::from_mins(1), keep: Duration::ZERO };
        let depth = InboxDepth { events: 1, bytes: 90, oldest: Some(at(0)) };
        assert!(limits.has_room(depth, 10, at(60_000)));
        assert!(!limits.has_room(depth, 11, at(0)));
        assert!(!limits.has_room(depth, 0, at(61_000)));
        assert!(limits.has_room(InboxDepth::default(), 0, at(999_000)));
    }

    #[test]
    fn a_batch_has_at_most_500_items_and_256_kib() {
        assert_eq!(batch_len(vec![2; 1_000]), 500);
        assert_eq!(batch_len(vec![20_000; 30]), 13);
        assert_eq!(batch_len([]), 0);
    }

    #[test]
    fn an_event_that_follows_the_retract_of_its_id_goes_with_the_next_signal() {
        use InboxItemKind::{Event, Retract};
        for (items, len) in [
            (vec![], 0),
            (vec![(Event, "a"), (Retract, "a"), (Event, "b")], 3),
            (vec![(Event, "a"), (Retract, "a"), (Event, "b"), (Event, "a")], 3),
            (vec![(Retract, "a"), (Retract, "b"), (Event, "b")], 2),
            (vec![(Retract, ""), (Event, "a")], 2),
        ] {
            let waiting = |(kind, id): &(InboxItemKind, &str)| {
                let json = match (*kind, *id) {
                    (Retract, "") => r#"{"category":"comment"}"#.to_owned(),
                    (_, id) => format!(r#"{{"event_id":"{id}"}}"#),
                };
                PendingItem { id: 0, kind: *kind, json }
            };
            assert_eq!(ordered_len(&items.iter().map(waiting).collect::<Vec<_>>()), len, "{items:?}");
        }
    }

    proptest! {
        #[test]
        fn no_step_takes_a_busy_key_or_sleeps_past_a_free_one(
            free in proptest::collection::vec(proptest::option::of(-500_i64..500), 0..8), room in 1_usize..5,
        ) {
            let keys: Vec<_> = free.iter().enumerate().map(|(n, free)| found(&format!("u{n}"), *free)).collect();
            let is_free = |found: &QueuedKey| found.lease.is_none_or(|lease| lease.free_at <= at(0));
            match next(keys.clone(), room, at(0)) {
                ForwarderStep::Lease(taken) => {
                    prop_assert!(!taken.is_empty() && taken.len() <= room);
                    prop_assert!(taken.iter().all(is_free));
                }
                ForwarderStep::Wait(wait) => {
                    prop_assert!(!keys.iter().any(is_free));
                    let until = at(0) + SignedDuration::try_from(wait).unwrap();
                    prop_assert!(keys.iter().all(|found| found.lease.is_some_and(|lease| until <= lease.free_at)));
                }
            }
        }
    }
}
