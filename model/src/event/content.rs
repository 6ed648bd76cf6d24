//! Compares events with the same id (rule 3).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Event;
use crate::hex_sha256;

/// Bounds the state (rule 5): later ones in byte order are dropped.
const CATEGORIES: usize = 32;

/// Stored in an event id's ledger row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventContent {
    pub occurred_at: Timestamp,
    /// Excludes urgency and categories, which are merged.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// `None` for several, which only a merge can compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedContent {
    pub occurred_at: Timestamp,
    /// `None` if an older version wrote the row or the person was erased. Any content then counts as equal.
    pub sha256: Option<String>,
    pub urgent: bool,
    pub categories: BTreeSet<String>,
    pub fate: EventFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFate {
    /// In no message yet: its digest still accepts events, or failed and returned it.
    Pending,
    Retracted,
    /// Sent, or its digest ended without a message.
    Ended,
}

closed_set! {
    /// An event compared to the ledger's entry for its id.
    pub enum EventRepetition {
        /// The same content or an older one. Nothing changes.
        Same = "known, same content",
        /// New content for an event in no message yet.
        Replaces = "pending, other content",
        /// The event occurred after the retract of the one in the ledger.
        New = "new since its retract",
        /// New content for a final event: rejected.
        Refused = "known, other content",
    }
}

/// Hashed with fields and names in a fixed order, normalized numbers, times in milliseconds as in the ledger,
/// and defaults for absent fields.
#[derive(Serialize)]
struct CanonicalContent<'a> {
    entity_type: &'a str,
    entity_id: &'a str,
    actor: &'a str,
    occurred_at: i64,
    counts: &'a BTreeMap<String, i64>,
    payload: Map<String, Value>,
}

impl RecordedContent {
    #[must_use]
    pub fn compare_content(&self, came: &EventContent) -> EventRepetition {
        let [came_at, known_at] = [came.occurred_at, self.occurred_at].map(Timestamp::as_millisecond);
        // The latest content wins in any order, so an older one also is a repetition.
        let is_known = self.sha256.as_ref().is_none_or(|sha256| *sha256 == came.sha256) || came_at < known_at;
        match self.fate {
            EventFate::Retracted if came_at > known_at => EventRepetition::New,
            // A retract covers everything that occurred before it.
            EventFate::Retracted => EventRepetition::Same,
            EventFate::Ended if is_known => EventRepetition::Same,
            EventFate::Ended => EventRepetition::Refused,
            EventFate::Pending if self.sha256.is_none() || (is_known && !self.gains_from(came)) => {
                EventRepetition::Same
            }
            EventFate::Pending => EventRepetition::Replaces,
        }
    }

    fn gains_from(&self, came: &EventContent) -> bool {
        let is_listed = came.category.as_ref().is_some_and(|category| self.categories.contains(category));
        (came.urgent && !self.urgent) || !is_listed
    }
}

impl Event {
    #[must_use]
    pub fn content(&self) -> EventContent {
        let sha256 = hex_sha256(&self.canonical_json());
        let category = self.other_categories.is_empty().then(|| self.category.clone());
        EventContent { occurred_at: self.occurred_at, sha256, urgent: self.urgent, category }
    }

    /// The latest content wins, urgency stays, categories add up, in any order of merging.
    pub fn merge(&mut self, other: Self) {
        let urgent = self.urgent || other.urgent;
        let categories: BTreeSet<_> = self.all_categories().chain(other.all_categories()).map(str::to_owned).collect();
        if self.merge_rank() < other.merge_rank() {
            *self = other;
        }
        self.urgent = urgent;
        let others = categories.into_iter().take(CATEGORIES).filter(|category| *category != self.category);
        self.other_categories = others.collect();
    }

    /// Compares in milliseconds, as the ledger does.
    #[must_use]
    pub fn occurred_after(&self, at: Timestamp) -> bool {
        self.occurred_at.as_millisecond() > at.as_millisecond()
    }

    pub fn all_categories(&self) -> impl Iterator<Item = &str> {
        [self.category.as_str()].into_iter().chain(self.other_categories.iter().map(String::as_str))
    }

    /// For equal times, the content itself breaks the tie.
    fn merge_rank(&self) -> (i64, Vec<u8>, &str) {
        (self.occurred_at.as_millisecond(), self.canonical_json(), &self.category)
    }

    fn canonical_json(&self) -> Vec<u8> {
        let canonical = CanonicalContent {
            entity_type: &self.entity_type,
            entity_id: &self.entity_id,
            actor: &self.actor,
            occurred_at: self.occurred_at.as_millisecond(),
            counts: &self.counts,
            payload: self.payload.fields(),
        };
        // Texts, numbers and names are valid JSON.
        serde_json::to_vec(&canonical).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{from_value, json};

    use super::*;
    use crate::wire;

    const EVENT: &str = r#"{"event_id":"e1","category":"outage","entity_id":"db1","occurred_at":"2026-01-31T08:00:00Z",
        "counts":{"a":1,"b":2},"payload":{"title":"db1 is down","n":2,"list":[1.5]}}"#;

    /// Parses an event as at the edge.
    fn read(json: &str) -> Event {
        let key = crate::Key::new("acme".into(), "alerts".into(), "ann".into()).unwrap();
        Event::from_wire(wire::parse_event(json.as_bytes()).unwrap(), Some(&key)).unwrap().1
    }

    #[test]
    fn the_content_is_the_same_however_it_is_written() {
        let content = read(EVENT).content();
        assert_eq!(content.sha256.len(), 64);
        for (from, to) in [
            (r#""category":"outage","entity_id":"db1""#, r#""entityId":"db1","category":"outage""#),
            (r#""a":1,"b":2"#, r#""b":"2","a":1.0"#),
            (r#""n":2"#, r#""n":2.0"#),
            (r#""title":"db1 is down","n":2"#, r#""n":2,"title":"db1 \u0069s down""#),
            ("08:00:00Z", "09:00:00.0000001+01:00"),
            (r#""entity_id":"db1""#, r#""entity_id":"db1","entity_type":"","actor":null,"urgent":false"#),
            (r#""event_id":"e1""#, r#""event_id":"e2""#),
        ] {
            let json = EVENT.replace(from, to);
            assert_ne!(json, EVENT);
            assert_eq!(read(&json).content().sha256, content.sha256, "{to}");
        }
        let stored: Event = from_value(serde_json::to_value(read(EVENT)).unwrap()).unwrap();
        assert_eq!(stored.content(), content, "through the workflow's state");
    }

    #[test]
    fn each_field_but_the_id_is_content() {
        let content = read(EVENT).content();
        for (from, to) in [
            ("outage", "recovery"),
            ("db1\",", "db2\","),
            ("08:00:00Z", "08:00:00.001Z"),
            (r#""b":2"#, r#""b":3"#),
            (r#""b":2"#, r#""c":2"#),
            ("is down", "is slow"),
            (r#""counts""#, r#""urgent":true,"counts""#),
            (r#""counts""#, r#""actor":"Bob","counts""#),
            (r#""counts""#, r#""entity_type":"check","counts""#),
        ] {
            assert_ne!(read(&EVENT.replace(from, to)).content(), content, "{to}");
        }
    }

    #[test]
    fn what_a_repeated_id_is_follows_from_what_the_ledger_has() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let category = Some("outage".to_owned());
        let came = |second, sha256: &str| EventContent {
            occurred_at: at(second),
            sha256: sha256.to_owned(),
            urgent: false,
            category: category.clone(),
        };
        for (fate, sha256, content, repetition) in [
            (EventFate::Pending, Some("a"), came(5, "a"), EventRepetition::Same),
            (EventFate::Pending, Some("a"), came(5, "b"), EventRepetition::Replaces),
            (EventFate::Pending, Some("a"), came(4, "b"), EventRepetition::Same),
            (EventFate::Pending, Some("a"), EventContent { urgent: true, ..came(5, "a") }, EventRepetition::Replaces),
            (
                EventFate::Pending,
                Some("a"),
                EventContent { category: Some("slow".into()), ..came(4, "b") },
                EventRepetition::Replaces,
            ),
            (EventFate::Pending, Some("a"), EventContent { category: None, ..came(5, "a") }, EventRepetition::Replaces),
            (EventFate::Pending, None, came(6, "b"), EventRepetition::Same),
            (EventFate::Ended, Some("a"), came(5, "a"), EventRepetition::Same),
            (EventFate::Ended, Some("a"), came(6, "b"), EventRepetition::Refused),
            (EventFate::Ended, Some("a"), came(5, "b"), EventRepetition::Refused),
            (EventFate::Ended, Some("a"), came(4, "b"), EventRepetition::Same),
            (
                EventFate::Ended,
                Some("a"),
                EventContent { urgent: true, category: None, ..came(5, "a") },
                EventRepetition::Same,
            ),
            (EventFate::Ended, None, came(6, "b"), EventRepetition::Same),
            (EventFate::Retracted, Some("a"), came(5, "a"), EventRepetition::Same),
            (EventFate::Retracted, Some("a"), came(5, "b"), EventRepetition::Same),
            (EventFate::Retracted, Some("a"), came(6, "b"), EventRepetition::New),
            (EventFate::Retracted, None, came(6, "b"), EventRepetition::New),
        ] {
            let recorded = RecordedContent {
                occurred_at: at(5),
                sha256: sha256.map(str::to_owned),
                urgent: false,
                categories: ["outage".to_owned()].into(),
                fate,
            };
            assert_eq!(recorded.compare_content(&content), repetition, "{recorded:?} {content:?}");
        }
    }

    #[test]
    fn the_latest_content_counts_and_nothing_silences_the_rest() {
        let first = Event { urgent: true, ..read(EVENT) };
        let later = read(&EVENT.replace("08:00:00Z", "08:05:00Z").replace("outage", "slow").replace("down", "slow"));
        let mut merged = first.clone();
        merged.merge(later.clone());
        let expected = Event { urgent: true, other_categories: ["outage".to_owned()].into(), ..later };
        assert_eq!(merged, expected);
        merged.merge(first);
        assert_eq!(merged, expected, "an earlier content changes nothing");
    }

    #[test]
    fn each_content_of_a_merged_event_is_a_repetition() {
        let first = Event { urgent: true, ..read(EVENT) };
        let later = read(&EVENT.replace("08:00:00Z", "08:05:00Z").replace("outage", "slow").replace("down", "slow"));
        let mut merged = first.clone();
        merged.merge(later.clone());
        for fate in [EventFate::Pending, EventFate::Ended] {
            let recorded = RecordedContent {
                occurred_at: merged.occurred_at,
                sha256: Some(merged.content().sha256),
                urgent: merged.urgent,
                categories: merged.all_categories().map(str::to_owned).collect(),
                fate,
            };
            for content in [&first, &later] {
                assert_eq!(recorded.compare_content(&content.content()), EventRepetition::Same, "{fate:?}");
            }
        }
    }

    fn contents() -> impl Strategy<Value = Vec<Event>> {
        let content =
            (0..3_i64, 0..60_u8, 0..3_u8, any::<bool>()).prop_map(|(second, category, title, urgent)| -> Event {
                let at = Timestamp::from_second(second).unwrap();
                from_value(json!({"event_id": "e1", "category": format!("c{category:02}"), "occurred_at": at,
                              "urgent": urgent, "payload": {"title": title}}))
                .unwrap()
            });
        prop::collection::vec(content, 1..50)
    }

    fn merged(contents: impl IntoIterator<Item = Event>) -> Event {
        contents
            .into_iter()
            .reduce(|mut merged, content| {
                merged.merge(content);
                merged
            })
            .unwrap()
    }

    proptest! {
        #[test]
        fn the_order_of_contents_does_not_matter(
            (contents, shuffled) in contents().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = merged(contents.clone());
            prop_assert_eq!(merged(shuffled.clone()), whole.clone());
            let (left, right) = shuffled.split_at(cut.index(shuffled.len()));
            let parts = [left, right].into_iter().filter(|part| !part.is_empty());
            prop_assert_eq!(merged(parts.map(|part| merged(part.to_vec()))), whole.clone());
            prop_assert_eq!(merged(contents.into_iter().chain([whole.clone()])), whole);
        }
    }
}
