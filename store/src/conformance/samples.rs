//! Default values for cases: `acme`, `ann`, the activity digest.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tidings_model::{
    Event, EventPayload, Key,
    attempt::{AttemptClass, AttemptPhase},
    records::{AttemptEnd, AuditEntry, MessageOrigin, OutboxMessage, Recipient},
    settings::{DigestCategories, DisplayLimits, StreamName},
    window::{DigestOutcome, Window, WindowEnd},
};

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

pub fn key(user: &str) -> Key {
    Key::new("acme".into(), "activity".into(), user.into()).unwrap()
}

pub fn window(n: i64) -> Window {
    window_of(&key("ann"), n)
}

pub fn window_of(key: &Key, n: i64) -> Window {
    let opened_at = at(n * 1_000);
    Window {
        key: key.clone(),
        digest_id: key.digest_id("run", n.unsigned_abs()),
        opened_at,
        due_at: at(n * 1_000 + 60),
    }
}

pub fn event(id: &str) -> Event {
    Event {
        event_id: id.into(),
        category: "comment".into(),
        other_categories: BTreeSet::new(),
        entity_type: "doc".into(),
        entity_id: "d1".into(),
        actor: "Ann".into(),
        occurred_at: at(0),
        counts: BTreeMap::new(),
        urgent: false,
        payload: titled(id.into()),
    }
}

pub fn titled(title: Value) -> EventPayload {
    EventPayload::from_iter([("title".to_owned(), title)])
}

pub fn events(ids: &[&str]) -> Vec<Event> {
    ids.iter().map(|id| event(id)).collect()
}

/// This many lines without sections, with three items each.
pub const fn shown(lines: u32) -> DisplayLimits<'static> {
    static NONE: DigestCategories = DigestCategories::NONE;
    DisplayLimits { lines, items: 3, categories: &NONE }
}

pub fn closed(outcome: DigestOutcome) -> WindowEnd {
    WindowEnd { outcome, why: format!("because {}", outcome.name()) }
}

pub fn recipient(user: &str, address: &str) -> Recipient {
    Recipient {
        tenant: "acme".into(),
        user: user.into(),
        address: address.into(),
        name: "Ann".into(),
        zone: "Europe/Berlin".into(),
        locale: "de".into(),
    }
}

pub fn message(window: &Window, body: &str) -> OutboxMessage {
    OutboxMessage {
        id: window.digest_id,
        origin: MessageOrigin::Digest(window.key.clone()),
        stream: StreamName::Bulk,
        envelope_from: "digests@example.com".into(),
        envelope_to: "ann@example.com".into(),
        message_id: "m@example.com".into(),
        subject: "Two comments".into(),
        bytes: body.as_bytes().to_vec(),
        template: "activity".into(),
        counted: false,
        made_from: String::new(),
        thread: None,
        made_at: at(100),
    }
}

pub fn entry(seconds: i64, actor: &str, action: &str) -> AuditEntry {
    AuditEntry { at: at(seconds), actor: actor.into(), action: action.into(), why: "one click".into() }
}

/// An end that only changes the attempt's own row.
pub fn end(class: AttemptClass) -> AttemptEnd {
    AttemptEnd {
        phase: AttemptPhase::Done,
        class,
        reply: class.name().into(),
        relay_id: None,
        closed: None,
        suppress: None,
        consecutive: 1,
        return_events: false,
    }
}

pub fn ends(class: AttemptClass, outcome: DigestOutcome) -> AttemptEnd {
    AttemptEnd { closed: Some(closed(outcome)), ..end(class) }
}
