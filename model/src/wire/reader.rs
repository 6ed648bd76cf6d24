//! Converts one event's or retract's JSON into its wire message.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::{Map, Value};
use tidings_proto::v1;

use super::{
    ContractEdition,
    broken::{locate_fault, not_json, repair_surrogates},
    split,
};
use crate::{
    foreign_text::{json_type, printable_name},
    limits::{self, InvalidField},
    nearest_name, when,
};

struct WireField {
    name: &'static str,
    camel: &'static str,
    in_retracts: bool,
    /// Only displayed and never looked up, so U+FFFD may replace half a character in it.
    is_shown_only: bool,
}

const fn field(name: &'static str, camel: &'static str) -> WireField {
    WireField { name, camel, in_retracts: true, is_shown_only: false }
}

const FIELDS: [WireField; 12] = [
    field("tenant", "tenant"),
    field("user", "user"),
    field("digest", "digest"),
    field("event_id", "eventId"),
    field("category", "category"),
    field("entity_type", "entityType"),
    field("entity_id", "entityId"),
    WireField { in_retracts: false, is_shown_only: true, ..field("actor", "actor") },
    field("occurred_at", "occurredAt"),
    WireField { in_retracts: false, ..field("counts", "counts") },
    WireField { in_retracts: false, ..field("urgent", "urgent") },
    WireField { in_retracts: false, is_shown_only: true, ..field("payload", "payload") },
];

const UNKNOWN_FIELDS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum WireKind {
    Event,
    Retract,
}

impl WireKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Event => "an event",
            Self::Retract => "a retract",
        }
    }

    fn fields(self) -> impl Iterator<Item = &'static WireField> {
        FIELDS.iter().filter(move |field| self == Self::Event || field.in_retracts)
    }
}

pub(crate) struct WireReader {
    edition: ContractEdition,
    /// The former edition may reject this JSON or read it differently.
    pub(crate) may_differ: bool,
}

impl WireReader {
    pub(crate) const fn new(edition: ContractEdition) -> Self {
        Self { edition, may_differ: false }
    }

    pub(crate) fn event(&mut self, json: &[u8]) -> Result<v1::Event, InvalidField> {
        let fields = self.object(WireKind::Event, json)?;
        self.message(WireKind::Event, fields)
    }

    pub(crate) fn retract(&mut self, json: &[u8]) -> Result<v1::Retract, InvalidField> {
        let fields = self.object(WireKind::Retract, json)?;
        let event = self.message(WireKind::Retract, fields)?;
        let v1::Event { tenant, user, digest, event_id, category, entity_type, entity_id, occurred_at, .. } = event;
        Ok(v1::Retract { tenant, user, digest, event_id, category, entity_type, entity_id, occurred_at })
    }

    fn object(&mut self, what: WireKind, json: &[u8]) -> Result<Map<String, Value>, InvalidField> {
        match serde_json::from_slice(json) {
            Ok(Value::Object(fields)) => Ok(fields),
            Ok(value) => Err(InvalidField::new(
                "",
                format!("is {}, not a JSON object with the fields of {}", json_type(&value), what.name()),
            )),
            Err(error) if self.edition == ContractEdition::Former => Err(InvalidField::new("", not_json(json, &error))),
            Err(error) => self.read_broken(json, &error),
        }
    }

    /// Reads an object with invalid parts, or names the invalid field. In fields for display, half a
    /// surrogate pair becomes U+FFFD: a title cut within an emoji should not cost us an email.
    fn read_broken(&mut self, json: &[u8], error: &serde_json::Error) -> Result<Map<String, Value>, InvalidField> {
        self.may_differ = true;
        let members = split::split_members(json).ok_or_else(|| InvalidField::new("", not_json(json, error)))?;
        let read = |(name, value): (String, &[u8])| {
            let is_shown_only = FIELDS.iter().any(|field| field.is_shown_only && field.name == name);
            let whole = repair_surrogates(value).filter(|_| is_shown_only).unwrap_or(Cow::Borrowed(value));
            match serde_json::from_slice(&whole) {
                Ok(value) => Ok((name, value)),
                Err(_) => Err(locate_fault(&printable_name(&name), &whole)),
            }
        };
        members.into_iter().map(read).collect()
    }

    /// As in proto3-JSON, `null` is the same as a missing field.
    fn message(&mut self, what: WireKind, fields: Map<String, Value>) -> Result<v1::Event, InvalidField> {
        let mut event = v1::Event::default();
        let mut given = [false; FIELDS.len()];
        let is_unknown = |name: &str| what.fields().all(|field| field.name != name && field.camel != name);
        let unknown_names = fields.iter().filter(|(name, value)| !value.is_null() && is_unknown(name));
        refuse_unknown(what, unknown_names.map(|(name, _)| name.as_str()))?;
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
            let mut known = FIELDS.iter().zip(&mut given);
            let known = known.find(|(field, _)| field.name == name || field.camel == name);
            let Some((WireField { name: field, camel, .. }, given)) = known else { continue };
            if std::mem::replace(given, true) {
                return Err(InvalidField::new(field, format!("is given twice, as {field} and {camel}")));
            }
            match *field {
                "tenant" => event.tenant = text(field, value)?,
                "user" => event.user = text(field, value)?,
                "digest" => event.digest = text(field, value)?,
                "event_id" => event.event_id = text(field, value)?,
                "category" => event.category = text(field, value)?,
                "entity_type" => event.entity_type = text(field, value)?,
                "entity_id" => event.entity_id = text(field, value)?,
                "actor" => event.actor = text(field, value)?,
                "occurred_at" => event.occurred_at = Some(self.time(field, &value)?),
                "counts" => event.counts = self.counts(value)?,
                "urgent" => event.urgent = flag(field, &value)?,
                _ => event.payload = Some(self.payload(value)?),
            }
        }
        Ok(event)
    }

    /// The range of years is checked later, together with the other limits.
    fn time(&mut self, field: &str, value: &Value) -> Result<tidings_proto::Timestamp, InvalidField> {
        let former = former_time(value);
        match former {
            // Both editions read these alike: RFC 3339, and whole seconds.
            Some(at) if !value.is_f64() => return Ok(at),
            Some(at) if self.edition == ContractEdition::Former => return Ok(at),
            _ => self.may_differ = true,
        }
        match self.edition {
            ContractEdition::Former => Err(InvalidField::new(field, "is not a time that this run knows")),
            ContractEdition::Today => {
                Ok(when::from_json(value).map_err(|problem| InvalidField::new(field, problem))?.into())
            }
        }
    }

    fn counts(&mut self, value: Value) -> Result<BTreeMap<String, i64>, InvalidField> {
        let Value::Object(counts) = value else {
            return Err(InvalidField::new(
                "counts",
                format!("is {}, not an object of names and whole numbers", json_type(&value)),
            ));
        };
        let mut read = BTreeMap::new();
        for (name, value) in counts {
            let count = self
                .count(&value)
                .map_err(|problem| InvalidField::new(&format!("counts.{}", printable_name(&name)), problem))?;
            if let Some(count) = count {
                read.insert(name, count);
            }
        }
        Ok(read)
    }

    /// As in proto3-JSON: `2`, `"2"`, and also `2.0` and `1E+2`, as written by Python and Java. `None` for
    /// `null`, which TypeScript writes for NaN.
    fn count(&mut self, value: &Value) -> Result<Option<i64>, String> {
        let known = match value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        if known.is_some() {
            return Ok(known);
        }
        self.may_differ = true;
        let double = match value {
            _ if self.edition == ContractEdition::Former => None,
            Value::Null => return Ok(None),
            Value::Number(number) => number.as_f64(),
            Value::String(text) if text.bytes().all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c)) => {
                text.parse().ok()
            }
            _ => None,
        };
        match double {
            Some(double) => match tidings_proto::number_of(double).and_then(|number| number.as_i64()) {
                None if double.is_finite() && double.fract() != 0.0 => {
                    Err("has a fraction; counts are whole numbers".to_owned())
                }
                None => Err(limits::over_count()),
                whole => Ok(whole),
            },
            None if value.is_number() => Err("is not a whole number that this run knows".to_owned()),
            None => Err(format!("is {}, not a whole number", json_type(value))),
        }
    }

    fn payload(&mut self, value: Value) -> Result<tidings_proto::Payload, InvalidField> {
        let Value::Object(fields) = value else {
            return Err(InvalidField::new("payload", format!("is {}, not an object", json_type(&value))));
        };
        if fields.values().any(is_large) {
            self.may_differ = true;
            if self.edition == ContractEdition::Former {
                return Err(InvalidField::new(
                    "payload",
                    "has a whole number of 2^53 or more, which this run does not know",
                ));
            }
        }
        Ok(fields.into())
    }
}

/// `None` if the former edition rejected the time.
#[expect(clippy::cast_possible_truncation, reason = "the former edition cut, and a replay must")]
fn former_time(value: &Value) -> Option<tidings_proto::Timestamp> {
    match value {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok().map(Into::into),
        Value::Number(number) => {
            if let Some(seconds) = number.as_i64() {
                return Some(tidings_proto::Timestamp { seconds, nanos: 0 });
            }
            let seconds = number.as_f64().filter(|_| number.is_f64())?;
            let nanos = (seconds.fract() * 1e9) as i32;
            let at = tidings_proto::Timestamp { seconds: seconds.trunc() as i64, nanos };
            (0.0..=253_402_300_799.0).contains(&seconds).then_some(at)
        }
        _ => None,
    }
}

fn text(field: &str, value: Value) -> Result<String, InvalidField> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(_) => Err(InvalidField::new(field, "is a number, not a text; write it in quotes")),
        value => Err(InvalidField::new(field, format!("is {}, not a text", json_type(&value)))),
    }
}

fn flag(field: &str, value: &Value) -> Result<bool, InvalidField> {
    value.as_bool().ok_or_else(|| InvalidField::new(field, format!("is {}, neither true nor false", json_type(value))))
}

/// Returns `true` if the value contains, at any depth, an integer too large for exact storage in a
/// `google.protobuf.Struct`.
fn is_large(value: &Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => false,
        Value::Number(number) => {
            let size = number.as_i64().map_or_else(|| number.as_u64().unwrap_or_default(), i64::unsigned_abs);
            size >= limits::COUNT.unsigned_abs()
        }
        Value::Array(items) => items.iter().any(is_large),
        Value::Object(fields) => fields.values().any(is_large),
        _ => false,
    }
}

fn refuse_unknown<'a>(what: WireKind, mut names: impl Iterator<Item = &'a str>) -> Result<(), InvalidField> {
    let Some(first) = names.next() else { return Ok(()) };
    let InvalidField { field, problem } = unknown(what, first);
    let mut problems = vec![problem];
    problems.extend(names.by_ref().take(UNKNOWN_FIELDS - 1).map(|name| {
        let InvalidField { field, problem } = unknown(what, name);
        format!("{field} {problem}")
    }));
    let more = names.count();
    if more > 0 {
        problems.push(format!("{more} more fields are unknown"));
    }
    Err(InvalidField { field, problem: problems.join("; ") })
}

fn unknown(what: WireKind, name: &str) -> InvalidField {
    let bare = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let is_unknown = format!("is an unknown field of {}", what.name());
    let names = || what.fields().map(|field| field.name);
    let problem = if let Some(known) = names().find(|known| bare(known) == bare(name)) {
        format!("{is_unknown}; write {known} (a Go struct needs the tag `json:\"{known}\"`)")
    } else if let Some(known) = nearest_name(name, names()) {
        format!("{is_unknown}; did you mean {known}?")
    } else {
        format!("{is_unknown}; its fields are {}", names().collect::<Vec<_>>().join(", "))
    };
    InvalidField::new(&printable_name(name), problem)
}
