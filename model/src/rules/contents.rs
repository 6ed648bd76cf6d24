//! Computes a digest's contents from its events: grouped, ranked and summed just as the store does (rule 19).

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use jiff::Timestamp;

use crate::{
    Event, EventPayload,
    records::{DigestContents, DigestLine, LineItem},
    settings::DisplayLimits,
};

const ACTORS: usize = 3;
/// A line's items come from this many recent events. Older ones are only counted.
pub const RECENT_EVENTS: u32 = 20;

/// The contents the store would read for these events, which must have different ids. Times are cut to
/// milliseconds, as in the store.
#[must_use]
pub fn digest_contents(events: &[Event], claimed_at: Timestamp, shown: DisplayLimits<'_>) -> DigestContents {
    let mut lines_by_key: HashMap<_, LineEvents<'_>> = HashMap::new();
    let mut counts = CountSums::default();
    for event in events {
        let identity = (&*event.category, &*event.entity_type, &*event.entity_id);
        lines_by_key.entry(identity).or_default().add(event);
        counts.add(event);
    }
    let mut lines: Vec<_> = lines_by_key.into_iter().collect();
    lines.sort_unstable_by_key(|(identity, line)| {
        let priority = shown.priority(identity.0);
        (Reverse(priority), Reverse(line.events.len()), Reverse(line.last_at), *identity)
    });
    DigestContents {
        claimed_at: Some(truncate_millis(claimed_at)),
        items: events.len() as u64,
        line_count: lines.len() as u64,
        counts: counts.capped(),
        lines: lines.into_iter().take(shown.lines as usize).filter_map(|(_, line)| line.shown_line(shown)).collect(),
    }
}

#[derive(Clone, Copy)]
pub struct RecentEvent<'a> {
    pub at: Timestamp,
    pub actor: &'a str,
    pub payload: &'a EventPayload,
}

/// Folds a line's recent events, latest first, into at most `most` items. Events that read the same become
/// one item, in the latest's place (rule 20).
#[must_use]
pub fn fold_items<'a>(recent: impl IntoIterator<Item = RecentEvent<'a>>, most: u32) -> Vec<LineItem> {
    let mut folded: Vec<(_, RecentEvent<'_>, u64)> = Vec::new();
    for event in recent {
        let words = event.payload.display_texts();
        match folded.iter_mut().find(|(of, latest, _)| latest.actor == event.actor && *of == words) {
            Some((_, _, count)) => *count += 1,
            None => folded.push((words, event, 1)),
        }
    }
    let shown = folded.into_iter().take(most as usize);
    shown.map(|(_, latest, count)| latest.item(count)).collect()
}

impl RecentEvent<'_> {
    fn item(self, count: u64) -> LineItem {
        LineItem { count, at: self.at, actor: self.actor.to_owned(), payload: self.payload.fields() }
    }
}

#[derive(Default)]
struct LineEvents<'a> {
    events: Vec<&'a Event>,
    counts: CountSums<'a>,
    last_at: Option<i64>,
    actors: HashMap<&'a str, i64>,
}

impl<'a> LineEvents<'a> {
    fn add(&mut self, event: &'a Event) {
        self.events.push(event);
        self.counts.add(event);
        let at = occurred_millis(event);
        self.last_at = self.last_at.max(Some(at));
        if !event.actor.is_empty() {
            let latest = self.actors.entry(&event.actor).or_insert(at);
            *latest = at.max(*latest);
        }
    }

    fn shown_line(mut self, shown: DisplayLimits<'_>) -> Option<DigestLine> {
        self.events.sort_unstable_by(|one, other| rank(other).cmp(&rank(one)));
        let (first, latest) = (*self.events.last()?, *self.events.first()?);
        let actor_count = self.actors.len() as u64;
        let mut actors: Vec<_> = self.actors.into_iter().map(|(actor, at)| (Reverse(at), actor)).collect();
        actors.sort_unstable();
        Some(DigestLine {
            category: latest.category.clone(),
            section: shown.section(&latest.category),
            entity_type: latest.entity_type.clone(),
            entity_id: latest.entity_id.clone(),
            count: self.events.len() as u64,
            counts: self.counts.capped(),
            first_at: truncate_millis(first.occurred_at),
            last_at: truncate_millis(latest.occurred_at),
            actor_count,
            actors: actors.into_iter().take(ACTORS).map(|(_, actor)| actor.to_owned()).collect(),
            latest: fold_items(self.events.into_iter().take(RECENT_EVENTS as usize).map(recent_event), shown.items),
        })
    }
}

fn recent_event(event: &Event) -> RecentEvent<'_> {
    let Event { occurred_at, actor, payload, .. } = event;
    RecentEvent { at: truncate_millis(*occurred_at), actor, payload }
}

#[derive(Default)]
struct CountSums<'a>(BTreeMap<&'a str, i128>);

impl<'a> CountSums<'a> {
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
    (occurred_millis(event), &event.event_id)
}

fn occurred_millis(event: &Event) -> i64 {
    event.occurred_at.as_millisecond()
}

fn truncate_millis(at: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at)
}

#[cfg(test)]
mod tests;
