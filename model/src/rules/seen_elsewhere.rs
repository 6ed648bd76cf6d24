//! Asks a team's service which events the recipient has already seen, and interprets its response (rule 20).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Event, Key, wire};

pub const MOST_EVENTS: u32 = 10_000;
/// For a response: 4 MiB.
pub const ANSWER_BYTES: usize = 4_194_304;

closed_set! {
    /// Only `Answered` can remove events from a digest.
    pub enum SeenResult {
        Answered = "answered",
        Unreachable = "unreachable",
        TimedOut = "timed_out",
        Refused = "refused",
        /// The body had no list of ids, or was too long.
        Unreadable = "unreadable",
    }
}

#[derive(Debug, PartialEq, Serialize)]
pub struct SeenRequest<'a> {
    tenant: &'a str,
    digest: &'a str,
    user: &'a str,
    event_ids: &'a BTreeSet<String>,
}

#[derive(Deserialize)]
struct SeenResponse {
    seen: Vec<String>,
}

impl<'a> SeenRequest<'a> {
    #[must_use]
    pub fn new(key: &'a Key, event_ids: &'a BTreeSet<String>) -> Self {
        Self { tenant: &key.tenant, digest: &key.digest_type, user: &key.user, event_ids }
    }
}

/// The ids for the request, latest first: the workflow's `events`, then the `stored` ones from the ledger.
#[must_use]
pub fn ids_to_check(events: &[Event], stored: Vec<String>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for id in events.iter().rev().map(|event| event.event_id.clone()).chain(stored) {
        if ids.len() == MOST_EVENTS as usize {
            break;
        }
        ids.insert(id);
    }
    ids
}

/// Ignores seen ids that were not in the request.
///
/// # Errors
/// The status is not 200, or the body is unreadable.
pub fn parse_seen(status: u16, body: &[u8], asked: &BTreeSet<String>) -> Result<BTreeSet<String>, SeenResult> {
    if status != 200 {
        return Err(SeenResult::Refused);
    }
    let SeenResponse { seen } = serde_json::from_slice(&wire::repair_json(body)).map_err(|_| SeenResult::Unreadable)?;
    Ok(seen.into_iter().filter(|id| asked.contains(id)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str) -> Event {
        Event {
            event_id: id.to_owned(),
            category: "comment".to_owned(),
            other_categories: BTreeSet::new(),
            entity_type: String::new(),
            entity_id: String::new(),
            actor: String::new(),
            occurred_at: jiff::Timestamp::UNIX_EPOCH,
            counts: [].into(),
            urgent: false,
            payload: crate::EventPayload::default(),
        }
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|&id| id.to_owned()).collect()
    }

    #[test]
    fn only_an_answer_about_asked_events_leaves_some_out() {
        let asked = ids(&["a", "b", "c"]);
        for (status, body, expected) in [
            (200, r#"{"seen":["a","c"]}"#, Ok(ids(&["a", "c"]))),
            (200, r#"{"seen":[]}"#, Ok(ids(&[]))),
            (200, r#"{"seen":["b","b","z","B"," b"],"more":1}"#, Ok(ids(&["b"]))),
            (200, r#"{"seen":["a","b","c"]}"#, Ok(asked.clone())),
            (200, r#"{"seen":null}"#, Err(SeenResult::Unreadable)),
            (200, r#"{"seen":[1]}"#, Err(SeenResult::Unreadable)),
            (200, "{}", Err(SeenResult::Unreadable)),
            (200, "", Err(SeenResult::Unreadable)),
            (204, "", Err(SeenResult::Refused)),
            (302, r#"{"seen":["a"]}"#, Err(SeenResult::Refused)),
            (500, r#"{"seen":["a"]}"#, Err(SeenResult::Refused)),
        ] {
            assert_eq!(parse_seen(status, body.as_bytes(), &asked), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_question_has_the_key_and_each_event_once() {
        let events = ["b", "a"].map(event);
        let asked = ids_to_check(&events, vec!["c".to_owned(), "a".to_owned()]);
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        assert_eq!(
            serde_json::to_string(&SeenRequest::new(&key, &asked)).unwrap(),
            r#"{"tenant":"acme","digest":"activity","user":"ann","event_ids":["a","b","c"]}"#
        );
    }

    #[test]
    fn of_too_many_events_the_latest_are_asked_about() {
        let events = ["old", "new"].map(event);
        let stored = (0..MOST_EVENTS).map(|n| n.to_string()).collect();
        let asked = ids_to_check(&events, stored);
        assert_eq!(asked.len(), MOST_EVENTS as usize);
        assert!(["old", "new", "0", "9997"].iter().all(|id| asked.contains(*id)) && !asked.contains("9998"));
    }
}
