//! Splits a JSON text into its events and retracts: one event, a list of events, or an object with lists.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{broken::not_json, split};
use crate::foreign_text::json_type;
use crate::limits::InvalidField;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct WireItems<'a> {
    pub events: Vec<&'a [u8]>,
    pub retracts: Vec<&'a [u8]>,
    pub(crate) broken: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchLists<'a> {
    #[serde(borrow, default)]
    events: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    retracts: Option<Vec<&'a RawValue>>,
}

/// Splits a text into its items. An object is a batch if it has `events` or `retracts` or `is_batch` is set,
/// otherwise an event.
///
/// # Errors
/// The text is neither an event nor a list, or has an unclosed bracket or quote.
pub fn split_items(data: &[u8], is_batch: bool) -> Result<WireItems<'_>, InvalidField> {
    let first = data.trim_ascii_start().first();
    // Check for the brace, because serde also accepts a list of the fields for a struct.
    if first == Some(&b'{')
        && let Ok(BatchLists { events, retracts }) = serde_json::from_slice(data)
        && (is_batch || events.is_some() || retracts.is_some())
    {
        let [events, retracts] = [events, retracts].map(|list| list.into_iter().flatten().map(bytes_of).collect());
        return Ok(WireItems { events, retracts, broken: false });
    }
    match first {
        Some(b'[') => {
            let (events, broken) = list("", data)?;
            Ok(WireItems { events, retracts: Vec::new(), broken })
        }
        Some(b'{') => object(data, is_batch),
        _ => Err(match serde_json::from_slice::<Value>(data) {
            Ok(Value::String(_)) => InvalidField::new(
                "",
                "is a text, neither an event nor a list of events; was it turned into JSON twice?",
            ),
            Ok(value) => {
                InvalidField::new("", format!("is {}, neither an event nor a list of events", json_type(&value)))
            }
            Err(error) => InvalidField::new("", not_json(data, &error)),
        }),
    }
}

fn object(data: &[u8], is_batch: bool) -> Result<WireItems<'_>, InvalidField> {
    let (members, mut broken) = match serde_json::from_slice::<BTreeMap<String, &RawValue>>(data) {
        Ok(members) => (members.into_iter().map(|(name, value)| (name, bytes_of(value))).collect(), false),
        Err(error) => {
            let members = split::split_members(data).ok_or_else(|| InvalidField::new("", not_json(data, &error)))?;
            (members.into_iter().collect::<BTreeMap<_, _>>(), true)
        }
    };
    let is_list = |name: &str| matches!(name, "events" | "retracts");
    if !is_batch && !members.keys().any(|name| is_list(name)) {
        return Ok(WireItems { events: vec![data], retracts: Vec::new(), broken });
    }
    let others = members.keys().filter(|name| !is_list(name)).count();
    let mut of = |name: &str| match members.get(name).copied() {
        None | Some(b"null") => Ok(Vec::new()),
        Some(value) => list(name, value).map(|(items, is_broken)| {
            broken |= is_broken;
            items
        }),
    };
    let (events, retracts) = (of("events")?, of("retracts")?);
    if others > 0 {
        let problem = format!("a batch has `events`, `retracts` and nothing else, not {others} more fields");
        return Err(InvalidField::new("", problem));
    }
    Ok(WireItems { events, retracts, broken })
}

/// Also returns `true` if the list itself is not valid JSON.
fn list<'a>(name: &str, data: &'a [u8]) -> Result<(Vec<&'a [u8]>, bool), InvalidField> {
    match serde_json::from_slice::<Vec<&RawValue>>(data) {
        Ok(items) => Ok((items.into_iter().map(bytes_of).collect(), false)),
        Err(_) if data.trim_ascii_start().first() != Some(&b'[') => Err(InvalidField::new(name, "is not a list")),
        Err(error) => {
            let items = split::split_parts(data).ok_or_else(|| InvalidField::new(name, not_json(data, &error)))?;
            Ok((items, true))
        }
    }
}

fn bytes_of(value: &RawValue) -> &[u8] {
    value.get().as_bytes()
}
