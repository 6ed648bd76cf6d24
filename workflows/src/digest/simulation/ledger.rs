//! A model of the store: the first write wins, and a digest with a message or an end takes no more events.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tidings_model::{
    Event, Key, Retract,
    step::{ReopenAnswer, ReturnedEvents},
    window::{DigestOutcome, Window, WindowEnd},
};
use uuid::Uuid;

#[derive(Default)]
pub(super) struct Ledger {
    pub events: BTreeMap<String, Uuid>,
    /// Events that wait for a claim, with the time of their return.
    pub returned: BTreeMap<String, Timestamp>,
    pub returns: BTreeMap<String, u32>,
    /// Claimed or resumed.
    pub claimed: BTreeSet<Uuid>,
    pub mails: BTreeMap<Uuid, BTreeSet<String>>,
    pub ended: BTreeMap<Uuid, WindowEnd>,
    pub retracts: BTreeSet<Retract>,
    /// Of the recipient's choices.
    pub revision: u64,
}

impl Ledger {
    /// Returns the number that the ledger has now, from the first on. `end` is about to be recorded.
    pub fn write(
        &mut self,
        digest_id: Uuid,
        event_ids: impl IntoIterator<Item = String>,
        end: Option<DigestOutcome>,
    ) -> u64 {
        let sealed = self.mails.contains_key(&digest_id);
        let is_open = !self.ended.contains_key(&digest_id);
        let is_over = self.ended.get(&digest_id).is_some_and(|closed| Some(closed.outcome) != end);
        let mut taken = 0;
        for id in event_ids {
            let is_there = match self.events.get(&id) {
                Some(owner) => is_open || self.ended.contains_key(owner),
                None => !is_over && !sealed,
            };
            if !is_there {
                break;
            }
            self.events.entry(id).or_insert(digest_id);
            taken += 1;
        }
        taken
    }

    /// Reports an event that opens no window, because a digest has it.
    pub fn knows(&self, id: &str, open: Option<Uuid>) -> bool {
        self.events.get(id).is_some_and(|owner| self.ended.contains_key(owner) || open == Some(*owner))
    }

    /// Events that are too late for the digest join the key's next claim.
    pub fn read_back(&mut self, digest_id: Uuid, event_ids: impl IntoIterator<Item = String>, now: Timestamp) {
        for id in event_ids {
            if self.write(digest_id, [id.clone()], None) == 0 && !self.events.contains_key(&id) {
                let late = Uuid::new_v5(&digest_id, id.as_bytes());
                self.events.insert(id.clone(), late);
                self.end(late, DigestOutcome::Skipped);
                self.give_back(late, now);
            }
        }
    }

    /// Each event returns twice at most.
    pub fn give_back(&mut self, digest_id: Uuid, now: Timestamp) {
        for id in self.of(digest_id) {
            let returns = self.returns.entry(id.clone()).or_default();
            if *returns < 2 {
                *returns += 1;
                self.returned.insert(id, now);
            }
        }
    }

    /// The returned events that wait for a claim.
    pub fn waiting(&self) -> Option<ReturnedEvents> {
        let mut digests = BTreeMap::new();
        for id in self.returned.keys() {
            *digests.entry(self.events[id]).or_default() += 1;
        }
        Some(ReturnedEvents { at: *self.returned.values().min()?, digests })
    }

    pub fn take_returned(&mut self, digest_id: Uuid) {
        for id in std::mem::take(&mut self.returned).into_keys() {
            self.events.insert(id, digest_id);
        }
    }

    pub fn of(&self, digest_id: Uuid) -> BTreeSet<String> {
        self.events.iter().filter(|(_, owner)| **owner == digest_id).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the digest's number of events, and the number of the given ones that the ledger has.
    pub fn claim(&mut self, digest_id: Uuid, event_ids: impl IntoIterator<Item = String>) -> (u64, u64) {
        let taken = self.write(digest_id, event_ids, None);
        if !self.mails.contains_key(&digest_id) && !self.ended.contains_key(&digest_id) {
            self.take_returned(digest_id);
            self.claimed.insert(digest_id);
            self.take_back(digest_id, self.taken_back(digest_id));
        }
        (self.of(digest_id).len() as u64, taken)
    }

    /// Withdrawn events of the digest that the ledger knows.
    fn taken_back(&self, digest_id: Uuid) -> Vec<String> {
        let covered = |id: &String| self.retracts.iter().any(|retract| retract.covers(&event(id)));
        self.of(digest_id).into_iter().filter(covered).collect()
    }

    /// Moves withdrawn events to a digest that ended as skipped.
    pub fn take_back(&mut self, digest_id: Uuid, ids: Vec<String>) {
        let left = Uuid::new_v5(&digest_id, b"retracted");
        for id in ids {
            self.events.insert(id, left);
            self.end(left, DigestOutcome::Skipped);
        }
    }

    pub fn reopen(&mut self, digest_id: Uuid) -> ReopenAnswer {
        let content = self.of(digest_id);
        let again = self
            .ended
            .get(&digest_id)
            .is_none_or(|end| [DigestOutcome::Dropped, DigestOutcome::Failed].contains(&end.outcome));
        let whole = self.mails.get(&digest_id).is_none_or(|mail| *mail == content);
        let sealed = self.mails.contains_key(&digest_id);
        let asked_again = !self.ended.contains_key(&digest_id);
        let taken_back = if sealed || asked_again { Vec::new() } else { self.taken_back(digest_id) };
        if content.len() == taken_back.len() || !again || !whole {
            return ReopenAnswer::Refused { why: String::new() };
        }
        self.take_back(digest_id, taken_back);
        let content = self.of(digest_id);
        self.ended.remove(&digest_id);
        self.claimed.insert(digest_id);
        self.returned.retain(|id, _| !content.contains(id));
        let opened_at = Timestamp::UNIX_EPOCH;
        let window = Window { key: key(), digest_id, opened_at, due_at: opened_at };
        ReopenAnswer::Claimed { window, items: content.len() as u64, groups: 1 }
    }

    pub fn end(&mut self, digest_id: Uuid, outcome: DigestOutcome) -> WindowEnd {
        self.ended.entry(digest_id).or_insert(WindowEnd { outcome, why: String::new() }).clone()
    }
}
pub(super) fn key() -> Key {
    Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()
}

/// The id determines the rest.
pub(super) fn event(id: &str) -> Event {
    let number: i64 = id.parse().unwrap();
    Event {
        event_id: id.to_owned(),
        category: "comment".into(),
        other_categories: BTreeSet::new(),
        entity_type: "parity".into(),
        entity_id: (number % 2).to_string(),
        actor: String::new(),
        occurred_at: Timestamp::from_second(number).unwrap(),
        counts: BTreeMap::new(),
        urgent: false,
        payload: tidings_model::EventPayload::default(),
    }
}
pub(super) fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.event_id.clone()).collect()
}
