//! The contents of a digest, from its events: grouped, ranked and summed as the store does it (rule 19).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use jiff::Timestamp;

use crate::{
    Event,
    records::{Contents, Group},
};

/// The most actors that a line names.
const ACTORS: usize = 3;

/// The contents that the store reads from a digest with these events, each under another `event_id`: the first `max_groups` groups, and sums of
/// all. Times are in milliseconds, as the store keeps them.
#[must_use]
pub fn contents(events: &[Event], claimed_at: Timestamp, max_groups: u32) -> Contents {
    let mut groups: HashMap<_, Line<'_>> = HashMap::new();
    let mut counts = Sums::default();
    for event in events {
        let identity = (&*event.category, &*event.entity_type, &*event.entity_id);
        groups.entry(identity).or_default().add(event);
        counts.add(event);
    }
    let mut lines: Vec<_> = groups.into_iter().collect();
    lines.sort_unstable_by_key(|(identity, line)| (Reverse(line.count), Reverse(line.latest.map(at)), *identity));
    Contents {
        claimed_at: Some(milliseconds(claimed_at)),
        items: events.len() as u64,
        groups: lines.len() as u64,
        counts: counts.capped(),
        lines: lines.into_iter().take(max_groups as usize).filter_map(|(_, line)| line.group()).collect(),
    }
}

/// The events of a group.
#[derive(Default)]
struct Line<'a> {
    count: u64,
    counts: Sums<'a>,
    first_at: Option<i64>,
    /// The latest event, by `event_id` among those of one time.
    latest: Option<&'a Event>,
    /// The latest event of each actor.
    actors: HashMap<&'a str, i64>,
}

impl<'a> Line<'a> {
    fn add(&mut self, event: &'a Event) {
        self.count += 1;
        self.counts.add(event);
        let at = at(event);
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
        self.latest = self.latest.filter(|latest| rank(latest) > rank(event)).or(Some(event));
        if !event.actor.is_empty() {
            let latest = self.actors.entry(&event.actor).or_insert(at);
            *latest = at.max(*latest);
        }
    }

    fn group(self) -> Option<Group> {
        let latest = self.latest?;
        let actor_count = self.actors.len() as u64;
        let mut actors: Vec<_> = self.actors.into_iter().map(|(actor, at)| (Reverse(at), actor)).collect();
        actors.sort_unstable();
        Some(Group {
            category: latest.category.clone(),
            entity_type: latest.entity_type.clone(),
            entity_id: latest.entity_id.clone(),
            count: self.count,
            counts: self.counts.capped(),
            first_at: Timestamp::from_millisecond(self.first_at?).ok()?,
            last_at: milliseconds(latest.occurred_at),
            actor: latest.actor.clone(),
            payload: latest.payload.clone(),
            actor_count,
            actors: actors.into_iter().take(ACTORS).map(|(_, actor)| actor.to_owned()).collect(),
        })
    }
}

/// Sums of counts by name.
#[derive(Default)]
struct Sums<'a>(BTreeMap<&'a str, i128>);

impl<'a> Sums<'a> {
    fn add(&mut self, event: &'a Event) {
        for (name, count) in &event.counts {
            *self.0.entry(name).or_default() += i128::from(*count);
        }
    }

    /// Sums stop at the limits of an `i64`.
    fn capped(self) -> BTreeMap<String, i64> {
        let cap = |sum: i128| i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX });
        self.0.into_iter().map(|(name, sum)| (name.to_owned(), cap(sum))).collect()
    }
}

/// The place of an event among those of its group.
fn rank(event: &Event) -> (i64, &str) {
    (at(event), &event.event_id)
}

fn at(event: &Event) -> i64 {
    event.occurred_at.as_millisecond()
}

fn milliseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}
