//! Computes a digest's contents from its events: grouped, ranked and summed just as the store does (rule 19).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use jiff::Timestamp;

use crate::{
    Event, Payload,
    records::{Contents, Group, Item},
    settings::Shown,
};

const ACTORS: usize = 3;
/// A line's items are made from this many recent events. Older ones are only counted.
pub const RECENT_EVENTS: u32 = 20;

/// Returns the contents that the store would read for these events, which must have different ids. Times are
/// cut to milliseconds, as in the store.
#[must_use]
pub fn contents(events: &[Event], claimed_at: Timestamp, shown: Shown<'_>) -> Contents {
    let mut groups: HashMap<_, Line<'_>> = HashMap::new();
    let mut counts = Sums::default();
    for event in events {
        let identity = (&*event.category, &*event.entity_type, &*event.entity_id);
        groups.entry(identity).or_default().add(event);
        counts.add(event);
    }
    let mut lines: Vec<_> = groups.into_iter().collect();
    lines.sort_unstable_by_key(|(identity, line)| {
        let priority = shown.priority(identity.0);
        (Reverse(priority), Reverse(line.events.len()), Reverse(line.last_at), *identity)
    });
    Contents {
        claimed_at: Some(milliseconds(claimed_at)),
        items: events.len() as u64,
        groups: lines.len() as u64,
        counts: counts.capped(),
        lines: lines.into_iter().take(shown.groups as usize).filter_map(|(_, line)| line.group(shown)).collect(),
    }
}

#[derive(Clone, Copy)]
pub struct RecentEvent<'a> {
    pub at: Timestamp,
    pub actor: &'a str,
    pub payload: &'a Payload,
}

/// Folds a line's recent events, latest first, into at most `most` items. Events that read the same become
/// one item, in the place of the latest (rule 20).
#[must_use]
pub fn items<'a>(recent: impl IntoIterator<Item = RecentEvent<'a>>, most: u32) -> Vec<Item> {
    let mut folded: Vec<(_, RecentEvent<'_>, u64)> = Vec::new();
    for event in recent {
        let words = event.payload.words();
        match folded.iter_mut().find(|(of, latest, _)| latest.actor == event.actor && *of == words) {
            Some((_, _, count)) => *count += 1,
            None => folded.push((words, event, 1)),
        }
    }
    let shown = folded.into_iter().take(most as usize);
    shown.map(|(_, latest, count)| latest.item(count)).collect()
}

impl RecentEvent<'_> {
    fn item(self, count: u64) -> Item {
        Item { count, at: self.at, actor: self.actor.to_owned(), payload: self.payload.fields() }
    }
}

#[derive(Default)]
struct Line<'a> {
    events: Vec<&'a Event>,
    counts: Sums<'a>,
    last_at: Option<i64>,
    actors: HashMap<&'a str, i64>,
}

impl<'a> Line<'a> {
    fn add(&mut self, event: &'a Event) {
        self.events.push(event);
        self.counts.add(event);
        let at = at(event);
        self.last_at = self.last_at.max(Some(at));
        if !event.actor.is_empty() {
            let latest = self.actors.entry(&event.actor).or_insert(at);
            *latest = at.max(*latest);
        }
    }

    fn group(mut self, shown: Shown<'_>) -> Option<Group> {
        self.events.sort_unstable_by(|one, other| rank(other).cmp(&rank(one)));
        let (first, latest) = (*self.events.last()?, *self.events.first()?);
        let actor_count = self.actors.len() as u64;
        let mut actors: Vec<_> = self.actors.into_iter().map(|(actor, at)| (Reverse(at), actor)).collect();
        actors.sort_unstable();
        Some(Group {
            category: latest.category.clone(),
            section: shown.section(&latest.category),
            entity_type: latest.entity_type.clone(),
            entity_id: latest.entity_id.clone(),
            count: self.events.len() as u64,
            counts: self.counts.capped(),
            first_at: milliseconds(first.occurred_at),
            last_at: milliseconds(latest.occurred_at),
            actor_count,
            actors: actors.into_iter().take(ACTORS).map(|(_, actor)| actor.to_owned()).collect(),
            latest: items(self.events.into_iter().take(RECENT_EVENTS as usize).map(recent), shown.items),
        })
    }
}

fn recent(event: &Event) -> RecentEvent<'_> {
    let Event { occurred_at, actor, payload, .. } = event;
    RecentEvent { at: milliseconds(*occurred_at), actor, payload }
}

#[derive(Default)]
struct Sums<'a>(BTreeMap<&'a str, i128>);

impl<'a> Sums<'a> {
    fn add(&mut self, event: &'a Event) {
        for (name, count) in &event.counts {
            *self.0.entry(name).or_default() += i128::from(*count);
        }
    }

    /// Saturates at the limits of `i64`.
    fn capped(self) -> BTreeMap<String, i64> {
        let cap = |sum: i128| i64::try_from(sum).unwrap_or(if sum.is_negative() { i64::MIN } else { i64::MAX });
        self.0.into_iter().map(|(name, sum)| (name.to_owned(), cap(sum))).collect()
    }
}

fn rank(event: &Event) -> (i64, &str) {
    (at(event), &event.event_id)
}

fn at(event: &Event) -> i64 {
    event.occurred_at.as_millisecond()
}

fn milliseconds(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

#[cfg(test)]
mod tests;
