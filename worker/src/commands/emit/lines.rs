//! From lines of NDJSON to events.

use std::io::BufRead;

use jiff::Timestamp;
use serde_json::Value;
use tidings_mail::render::doubts;
use tidings_model::{
    Event,
    foreign_text::{clean_edges, skip_bom},
    limits::Invalid,
    wire,
};
use tidings_operations::rows;
use tidings_proto::v1;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::line_input::Rejection;

/// A line that was read.
pub type Read = Result<Line, Rejection>;

/// An event of a line.
#[derive(Debug)]
pub struct Line {
    pub number: u64,
    pub key: tidings_model::Key,
    /// As it was written.
    pub event: v1::Event,
    /// What looks like a mistake in it.
    pub doubts: Vec<Invalid>,
}

/// Bytes of a line: many times what the contract allows an event, however it is spaced and escaped.
const LINE_BYTES: usize = 256 * 1024;
/// Lines that are read ahead.
const AHEAD: usize = 1_000;

/// The parts of the key that events may leave out.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Key {
    /// The tenant of events that name none
    #[arg(long)]
    pub tenant: Option<String>,
    /// The user of events that name none
    #[arg(long)]
    pub user: Option<String>,
    /// The digest type of events that name none
    #[arg(long, value_name = "TYPE")]
    pub digest: Option<String>,
}

impl Key {
    /// Fills in what the event leaves out.
    pub(super) fn complete(&self, event: &mut v1::Event) {
        let parts =
            [(&mut event.tenant, &self.tenant), (&mut event.user, &self.user), (&mut event.digest, &self.digest)];
        for (own, inherited) in parts {
            if let (true, Some(inherited)) = (own.is_empty(), inherited) {
                own.clone_from(inherited);
            }
        }
    }
}

/// The lines of an input: each is an event, or the reason why it is none. Blank ones are passed over. An error in reading
/// names the line, too, and ends it.
pub struct Lines {
    input: rows::Lines<Box<dyn BufRead + Send>>,
    key: Key,
    over: bool,
}

impl Lines {
    /// The lines of `input`, with `key` for what events leave out.
    #[must_use]
    pub fn new(input: Box<dyn BufRead + Send>, key: Key) -> Self {
        Self { input: rows::Lines::new(input, LINE_BYTES), key, over: false }
    }
}

impl Iterator for Lines {
    type Item = anyhow::Result<Read>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let is_blank = |line: &[u8]| line.trim_ascii().is_empty() && line.len() <= LINE_BYTES;
        let line = self.input.find(|line| line.as_ref().map_or(true, |(_, line)| !is_blank(line)));
        self.over = !matches!(line, Some(Ok(_)));
        line.map(|line| {
            let (number, line) = line?;
            Ok(event_of(number, &line, &self.key))
        })
    }
}

/// Reads ahead on a thread of its own, and not on one of the runtime, which would wait for the next line at its end.
pub(super) fn ahead(lines: Lines) -> mpsc::Receiver<anyhow::Result<Read>> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        for line in lines {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Nothing but this event, which is checked like any other.
pub(super) fn only(event: v1::Event) -> mpsc::Receiver<anyhow::Result<Read>> {
    let (sender, lines) = mpsc::channel(1);
    // The channel has room for one, and its receiver is still here.
    let _ = sender.try_send(Ok(checked(1, event)));
    lines
}

fn event_of(line: u64, json: &[u8], key: &Key) -> Read {
    let rejected = |field: &str, problem: &str| Rejection::new(line, field, problem);
    if json.len() > LINE_BYTES {
        return Err(rejected("", &format!("is longer than {LINE_BYTES} bytes")));
    }
    let mut event = wire::event(skip_bom(json)).map_err(|invalid| rejected(&invalid.field, &invalid.problem))?;
    clean_ids(&mut event);
    key.complete(&mut event);
    checked(line, event)
}

/// A file of events is often an export. What nobody sees at the edges of its ids would make other people and other events of them.
fn clean_ids(event: &mut v1::Event) {
    let v1::Event { tenant, user, digest, event_id, category, entity_type, entity_id, .. } = event;
    for id in [tenant, user, digest, event_id, category, entity_type, entity_id] {
        let clean = clean_edges(id);
        if clean.len() < id.len() {
            let clean = clean.to_owned();
            *id = clean;
        }
    }
}

/// Checks the limits of the contract before anything is sent. An event that passes is sent unchanged.
fn checked(number: u64, event: v1::Event) -> Read {
    match Event::from_wire(event.clone(), None) {
        Ok((key, checked)) => Ok(Line { number, key, event, doubts: doubts(&checked, Timestamp::now()) }),
        Err(Invalid { field, problem }) => Err(Rejection::new(number, &field, &problem)),
    }
}

/// The fields of the event.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "One event, instead of a file")]
pub(super) struct Fields {
    /// The category of the event, which happens now
    #[arg(long, requires_all = ["tenant", "user", "digest"])]
    category: Option<String>,
    /// The title that the message shows
    #[arg(long, requires = "category")]
    title: Option<String>,
    /// The link that the message shows
    #[arg(long, requires = "category")]
    url: Option<String>,
    /// Its idempotency key [default: a random UUID]
    #[arg(long, requires = "category")]
    event_id: Option<String>,
}

impl Fields {
    /// The event, if one is described.
    pub fn to_event(&self, key: &Key) -> Option<v1::Event> {
        let shown = [("title", &self.title), ("url", &self.url)];
        let field = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), Value::String(value.clone()?)));
        let mut event = v1::Event {
            event_id: self.event_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string()),
            category: self.category.clone()?,
            occurred_at: Some(jiff::Timestamp::now().into()),
            payload: Some(shown.into_iter().filter_map(field).collect()),
            ..v1::Event::default()
        };
        key.complete(&mut event);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"{"event_id": "1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}"#;

    fn key() -> Key {
        Key { tenant: Some("acme".into()), user: Some("ann".into()), digest: Some("activity".into()) }
    }

    #[test]
    fn a_missing_part_of_the_key_comes_from_the_command_line() {
        let json = RIGHT.replace('{', r#"{"user": "bob", "#);
        let Line { event, .. } = event_of(1, json.as_bytes(), &key()).unwrap();
        assert_eq!([event.tenant, event.user, event.digest], ["acme", "bob", "activity"]);
    }

    #[test]
    fn a_mark_before_a_line_and_around_an_id_is_no_part_of_it() {
        let json = format!("\u{feff}{}", RIGHT.replace('{', "{\"user\": \"\u{a0}bob\u{200b}\", "));
        let Line { event, .. } = event_of(2, json.as_bytes(), &key()).unwrap();
        assert_eq!(event.user, "bob");
    }

    #[test]
    fn a_refusal_names_the_field_and_what_would_be_right() {
        let long = "x".repeat(256);
        for (json, field, says) in [
            ("{}".to_owned(), "event_id", "is required"),
            ("not json".to_owned(), "", "is not JSON at byte 2"),
            (RIGHT.replace("comment", &long), "category", "256 bytes, the limit is 255"),
            (RIGHT.replace("2026-01-31T08:00:00Z", "yesterday"), "occurred_at", "a time as in RFC 3339"),
            (RIGHT.replace("category", "kategory"), "kategory", "unknown field"),
            (" ".repeat(LINE_BYTES + 1), "", "longer than"),
        ] {
            let rejection = event_of(7, json.as_bytes(), &key()).unwrap_err();
            assert_eq!((rejection.line, rejection.field.as_str()), (7, field), "{}", rejection.problem);
            assert!(rejection.problem.contains(says), "{}", rejection.problem);
        }
    }

    /// The table of the model, as lines of a file.
    #[test]
    fn each_refusal_names_its_field_in_our_words() {
        for line in include_str!("../../../../tests/data/refused.ndjson").lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let [event, field, says] = ["event", "field", "says"].map(|name| line[name].as_str().unwrap());
            let Rejection { field: named, problem, .. } = event_of(1, event.as_bytes(), &key()).expect_err(event);
            assert!(named == field && problem.contains(says), "{event}: {named}: {problem}");
            for phrase in
                ["untagged", "google.protobuf", "invalid digit", "out of range integral", "invalid type", "line 1"]
            {
                assert!(!problem.contains(phrase), "{event}: {problem}");
            }
        }
    }
}
