//! Parses NDJSON lines into events.

use std::io::BufRead;

use jiff::Timestamp;
use serde_json::Value;
use tidings_mail::render::event_warnings;
use tidings_model::{
    Event,
    foreign_text::{clean_edges, skip_bom},
    limits::InvalidField,
    wire,
};
use tidings_operations::rows;
use tidings_proto::v1;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::line_input::LineRejection;

pub type ParsedLine = Result<EventLine, LineRejection>;

#[derive(Debug)]
pub struct EventLine {
    pub number: u64,
    pub key: tidings_model::Key,
    /// With clean ids, and missing key parts filled in.
    pub event: v1::Event,
    /// Likely mistakes, shown as warnings.
    pub doubts: Vec<InvalidField>,
}

/// Maximum bytes per line, many times the contract's limit for an event.
const LINE_BYTES: usize = 256 * 1024;
const AHEAD: usize = 1_000;

/// The parts of the key that events may leave out.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyDefaults {
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

impl KeyDefaults {
    pub(super) fn fill_missing(&self, event: &mut v1::Event) {
        let parts =
            [(&mut event.tenant, &self.tenant), (&mut event.user, &self.user), (&mut event.digest, &self.digest)];
        for (own, inherited) in parts {
            if let (true, Some(inherited)) = (own.is_empty(), inherited) {
                own.clone_from(inherited);
            }
        }
    }
}

/// Each line is an event or a rejection; blank lines are skipped. A read error has its line number and ends
/// the iteration.
pub struct EventLines {
    input: rows::NumberedLines<Box<dyn BufRead + Send>>,
    key: KeyDefaults,
    over: bool,
}

impl EventLines {
    /// `key` supplies missing parts.
    #[must_use]
    pub fn new(input: Box<dyn BufRead + Send>, key: KeyDefaults) -> Self {
        Self { input: rows::NumberedLines::new(input, LINE_BYTES), key, over: false }
    }
}

impl Iterator for EventLines {
    type Item = anyhow::Result<ParsedLine>;

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

/// Uses a separate thread, because at shutdown the runtime would wait for the next line on one of its own.
pub(super) fn read_ahead(lines: EventLines) -> mpsc::Receiver<anyhow::Result<ParsedLine>> {
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

pub(super) fn single_event(event: v1::Event) -> mpsc::Receiver<anyhow::Result<ParsedLine>> {
    let (sender, lines) = mpsc::channel(1);
    // The channel has room for one, and its receiver is still here.
    let _ = sender.try_send(Ok(check_event(1, event)));
    lines
}

fn event_of(line: u64, json: &[u8], key: &KeyDefaults) -> ParsedLine {
    let rejected = |field: &str, problem: &str| LineRejection::new(line, field, problem);
    if json.len() > LINE_BYTES {
        return Err(rejected("", &format!("is longer than {LINE_BYTES} bytes")));
    }
    let mut event = wire::parse_event(skip_bom(json)).map_err(|invalid| rejected(&invalid.field, &invalid.problem))?;
    clean_ids(&mut event);
    key.fill_missing(&mut event);
    check_event(line, event)
}

/// Trims invisible characters, which exports often contain. With them, an id would mean another person or
/// event.
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

/// Checks the contract's limits. A valid event is sent unchanged.
fn check_event(number: u64, event: v1::Event) -> ParsedLine {
    match Event::from_wire(event.clone(), None) {
        Ok((key, checked)) => Ok(EventLine { number, key, event, doubts: event_warnings(&checked, Timestamp::now()) }),
        Err(InvalidField { field, problem }) => Err(LineRejection::new(number, &field, &problem)),
    }
}

/// The fields of the event.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "One event, instead of a file")]
pub(super) struct EventFields {
    /// The category of the event, which occurs now
    #[arg(long, requires_all = ["tenant", "user", "digest"])]
    category: Option<String>,
    /// The title shown in the message
    #[arg(long, requires = "category")]
    title: Option<String>,
    /// The link shown in the message
    #[arg(long, requires = "category")]
    url: Option<String>,
    /// Its idempotency key [default: a random UUID]
    #[arg(long, requires = "category")]
    event_id: Option<String>,
}

impl EventFields {
    /// Returns `None` without `--category`.
    pub fn to_event(&self, key: &KeyDefaults) -> Option<v1::Event> {
        let shown = [("title", &self.title), ("url", &self.url)];
        let field = |(name, value): (&str, &Option<String>)| Some((name.to_owned(), Value::String(value.clone()?)));
        let mut event = v1::Event {
            event_id: self.event_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string()),
            category: self.category.clone()?,
            occurred_at: Some(jiff::Timestamp::now().into()),
            payload: Some(shown.into_iter().filter_map(field).collect()),
            ..v1::Event::default()
        };
        key.fill_missing(&mut event);
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"{"event_id": "1", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z"}"#;

    fn key() -> KeyDefaults {
        KeyDefaults { tenant: Some("acme".into()), user: Some("ann".into()), digest: Some("activity".into()) }
    }

    #[test]
    fn a_missing_part_of_the_key_comes_from_the_command_line() {
        let json = RIGHT.replace('{', r#"{"user": "bob", "#);
        let EventLine { event, .. } = event_of(1, json.as_bytes(), &key()).unwrap();
        assert_eq!([event.tenant, event.user, event.digest], ["acme", "bob", "activity"]);
    }

    #[test]
    fn a_mark_before_a_line_and_around_an_id_is_no_part_of_it() {
        let json = format!("\u{feff}{}", RIGHT.replace('{', "{\"user\": \"\u{a0}bob\u{200b}\", "));
        let EventLine { event, .. } = event_of(2, json.as_bytes(), &key()).unwrap();
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
            let LineRejection { field: named, problem, .. } = event_of(1, event.as_bytes(), &key()).expect_err(event);
            assert!(named == field && problem.contains(says), "{event}: {named}: {problem}");
            for phrase in
                ["untagged", "google.protobuf", "invalid digit", "out of range integral", "invalid type", "line 1"]
            {
                assert!(!problem.contains(phrase), "{event}: {problem}");
            }
        }
    }
}
