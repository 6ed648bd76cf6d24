//! Operator commands for a key's workflow, and their results. Each one is a workflow update, and the audit
//! trail records who sent it, why and when.

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    Event,
    decode::{SignalPayload, wrong_encoding},
    foreign_text::json_type,
    limits,
    limits::InvalidField,
    pause::PauseDetails,
    records::{AuditActor, AuditEntry},
    settings::FrequencyLimits,
    when,
    window::{DeadlineBasis, Window},
};

pub const BY_BYTES: usize = 64;
pub const WHY_BYTES: usize = 500;

/// Who gives a command and why, for the audit trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CommandContext {
    /// The operator's login. This should never be an email address, because workflow history keeps it.
    pub by: String,
    /// In words, for whoever reads the audit trail.
    pub why: String,
}

impl CommandContext {
    /// Rejects empty fields, control characters, and an address in `by`.
    ///
    /// # Errors
    /// Names the field, the problem and the limit.
    pub fn check(&self) -> Result<(), InvalidField> {
        limits::check_line("by", &self.by, BY_BYTES)?;
        if self.by.contains('@') {
            return Err(InvalidField::new(
                "by",
                "is an address, which workflow history must not keep; a login will do",
            ));
        }
        limits::check_line("why", &self.why, WHY_BYTES)
    }

    #[must_use]
    pub fn audit_entry(&self, action: &str, at: Timestamp) -> AuditEntry {
        AuditEntry { at, actor: AuditActor::from(self.by.clone()), action: action.to_owned(), why: self.why.clone() }
    }
}

/// The update `hold`: collect, but send nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HoldCommand {
    /// The operator and the reason.
    #[serde(flatten)]
    pub order: CommandContext,
    /// When the hold ends by itself; without it, only `release` ends it. JSON accepts RFC 3339 and seconds
    /// since 1970.
    #[serde(default, deserialize_with = "when::optional")]
    pub until: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseCommand {
    #[serde(flatten)]
    pub order: CommandContext,
    /// One of many keys released together, so overdue events wait for its share of the spread (rule 30).
    /// Older versions do not send this and release at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
}

impl From<CommandContext> for ReleaseCommand {
    fn from(order: CommandContext) -> Self {
        Self { order, spread: false }
    }
}

/// Moves the deadline of the open window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetimeCommand {
    #[serde(flatten)]
    pub order: CommandContext,
    /// `None` plans it again from today's configuration and preferences. JSON accepts RFC 3339 and seconds
    /// since 1970.
    #[serde(default, deserialize_with = "when::optional", skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Resumes a digest which ended without an email, or was left behind by a terminated run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenCommand {
    #[serde(flatten)]
    pub order: CommandContext,
    pub digest_id: Uuid,
    /// Send even if the recipient may already have it, because an attempt got past the final dot.
    #[serde(default)]
    pub may_duplicate: bool,
}

/// The answer of the update `flush`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FlushResult {
    /// Events sent now.
    pub events: u64,
    /// The digest in delivery, which is sent first.
    pub behind: Option<Uuid>,
    /// The events will be sent when the key's hold ends.
    #[serde(default)]
    pub held: bool,
    /// The digest in delivery no longer waits (in its undo period, for a better hour or for its next
    /// attempt).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hurried: bool,
    /// The events will be sent when this operator's pause ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseDetails>,
}

/// The answer of the update `hold`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HoldResult {
    /// Pending events. With none and no digest in delivery, there was nothing to hold.
    pub events: u64,
    /// No attempt of this digest will start before the hold ends.
    pub delivering: Option<Uuid>,
}

/// The answer of the update `release`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReleaseResult {
    /// `true` if the key was on hold.
    pub held: bool,
    /// Pending events.
    pub events: u64,
    /// A time in the past means now.
    pub due_at: Option<Timestamp>,
    /// Nothing will be sent before this operator's pause ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseDetails>,
}

/// The answer of the update `drop`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DropResult {
    /// The ledger keeps them.
    pub events: u64,
    /// If an attempt was past the final dot, this digest ends as sent or ambiguous.
    pub delivering: Option<Uuid>,
}

/// The answer of the update `retime`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetimeResult {
    /// Pending events.
    pub events: u64,
    /// The previous deadline.
    pub was: Option<Timestamp>,
    /// The new deadline.
    pub due_at: Option<Timestamp>,
    /// Why the digest is due then, in words.
    pub why: String,
}

/// The answer of the update `reopen`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReopenResult {
    /// Events to send again.
    pub events: u64,
    /// Why it could not be resumed. Missing if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The result of the query `due`: the input of a claim made now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DuePreview {
    pub window: Window,
    /// Not stored yet.
    pub events: Vec<Event>,
    /// Unstored events that do not fit on this page.
    pub more: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<FrequencyLimits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<DeadlineBasis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promised_at: Option<Timestamp>,
}

// The argument as the workflow receives it. `check` rejects unknown fields later, because a replay has to
// read arguments an older version accepted.

pub trait OperatorCommand {
    const FIELDS: &'static [&'static str];

    fn order(&self) -> &CommandContext;

    /// When the command takes effect or ends, with the field's name.
    fn time(&self) -> Option<(&'static str, Timestamp)> {
        None
    }
}

macro_rules! command {
    ($command:ty, $($field:literal),*) => {
        impl OperatorCommand for $command {
            const FIELDS: &'static [&'static str] = &["by", "why", $($field),*];

            fn order(&self) -> &CommandContext {
                &self.order
            }
        }
    };
}

impl OperatorCommand for HoldCommand {
    const FIELDS: &'static [&'static str] = &["by", "why", "until"];

    fn order(&self) -> &CommandContext {
        &self.order
    }

    fn time(&self) -> Option<(&'static str, Timestamp)> {
        Some(("until", self.until?))
    }
}

impl OperatorCommand for RetimeCommand {
    const FIELDS: &'static [&'static str] = &["by", "why", "at"];

    fn order(&self) -> &CommandContext {
        &self.order
    }

    fn time(&self) -> Option<(&'static str, Timestamp)> {
        Some(("at", self.at?))
    }
}

command!(ReleaseCommand, "spread");
command!(ReopenCommand, "digest_id", "may_duplicate");

impl OperatorCommand for CommandContext {
    const FIELDS: &'static [&'static str] = &["by", "why"];

    fn order(&self) -> &CommandContext {
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorArgument<C> {
    pub command: C,
    unknown: Vec<String>,
}

impl<C: OperatorCommand> OperatorArgument<C> {
    /// Rejects unknown fields, an invalid operator or reason, and a time in the past. The workflow checks
    /// this, so command line, API and update behave alike.
    ///
    /// # Errors
    /// Names the field, the problem and the remedy.
    pub fn check(&self, now: Timestamp) -> Result<(), InvalidField> {
        if let Some(field) = self.unknown.first() {
            let problem = format!("is not a field of this command; its fields are {}", C::FIELDS.join(", "));
            return Err(InvalidField::new(&field.escape_debug().take(64).collect::<String>(), problem));
        }
        if let Some((field, at)) = self.command.time().filter(|(_, at)| *at <= now) {
            return Err(InvalidField::new(field, format!("is in the past: {at}")));
        }
        self.command.order().check()
    }
}

impl<C: OperatorCommand + DeserializeOwned> OperatorArgument<C> {
    /// Parses the payloads of an update.
    ///
    /// # Errors
    /// If there is not exactly one payload, it is not JSON, or a field is missing or has the wrong type.
    /// Lists the expected fields.
    pub fn parse_payloads(payloads: &[SignalPayload<'_>]) -> Result<Self, InvalidField> {
        let invalid = |problem: String| {
            let fields = C::FIELDS.join(", ");
            InvalidField::new(
                "argument",
                format!("{problem}; send one JSON object as json/plain, its fields are {fields}"),
            )
        };
        let payload = match payloads {
            [payload] => payload,
            [] => return Err(invalid("is missing".to_owned())),
            more => return Err(invalid(format!("is one of {}", more.len()))),
        };
        if !matches!(payload.encoding, b"json/plain" | b"json/protobuf") {
            return Err(invalid(wrong_encoding(&payload.encoding())));
        }
        match serde_json::from_slice(payload.data) {
            Ok(Value::Object(fields)) => Self::deserialize(Value::Object(fields.clone()))
                .map_err(|error| find_invalid_field::<C>(fields, &error)),
            Ok(value) => Err(invalid(format!("is {}", json_type(&value)))),
            Err(_) => Err(invalid("is not JSON".to_owned())),
        }
    }
}

/// Parses each field without the others.
fn find_invalid_field<C: OperatorCommand + DeserializeOwned>(
    fields: Map<String, Value>,
    error: &serde_json::Error,
) -> InvalidField {
    let missing = |problem: &str| Some(problem.strip_prefix("missing field `")?.split('`').next()?.to_owned());
    if let Some(field) = missing(&error.to_string()) {
        return InvalidField::new(&field, "is required");
    }
    for (name, value) in fields {
        let is_of_order = matches!(name.as_str(), "by" | "why");
        if is_of_order && !value.is_string() {
            return InvalidField::new(&name, format!("is {}, not a text", json_type(&value)));
        }
        let mut alone = json!({"by": "", "why": ""});
        alone[&name] = value.clone();
        let refused = serde_json::from_value::<C>(alone).err().map(|error| error.to_string());
        let Some(problem) = refused.filter(|problem| missing(problem).is_none()) else { continue };
        // Our own time errors are safe to show. Those of a library would quote the value.
        let is_ours = ["is ", "has "].iter().any(|words| problem.starts_with(words));
        let problem = if is_ours { problem } else { format!("is {} that this field does not take", json_type(&value)) };
        return InvalidField::new(&name, problem);
    }
    InvalidField::new("argument", "cannot be read")
}

impl<C> From<C> for OperatorArgument<C> {
    fn from(command: C) -> Self {
        Self { command, unknown: Vec::new() }
    }
}

impl<C: Serialize> Serialize for OperatorArgument<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.command.serialize(serializer)
    }
}

impl<'de, C: OperatorCommand + DeserializeOwned> Deserialize<'de> for OperatorArgument<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Value::deserialize(deserializer)?;
        let names = json.as_object().into_iter().flat_map(|fields| fields.keys());
        let unknown = names.filter(|name| !C::FIELDS.contains(&name.as_str())).cloned().collect();
        Ok(Self { command: serde_json::from_value(json).map_err(D::Error::custom)?, unknown })
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt};

    use serde_json::{from_value, json, to_value};
    use uuid::Uuid;

    use super::*;
    use crate::message::command::RetryCommand;

    const NOW: Timestamp = Timestamp::constant(-1, 0);

    fn order() -> CommandContext {
        CommandContext { by: "ann".into(), why: "ticket 812".into() }
    }

    /// Accepts the command with all its fields, but not with one more.
    fn takes_its_fields_only<C>(command: C)
    where
        C: OperatorCommand + Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug,
    {
        let mut json = to_value(&command).unwrap();
        let names: BTreeSet<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, C::FIELDS.iter().map(|name| (*name).to_owned()).collect(), "{command:?}");
        let argument: OperatorArgument<C> = from_value(json.clone()).unwrap();
        assert_eq!((argument.check(NOW), &argument), (Ok(()), &OperatorArgument::from(command.clone())));
        assert_eq!(to_value(&argument).unwrap(), json);

        json["untill"] = json!(null);
        let argument: OperatorArgument<C> = from_value(json).unwrap();
        let error = argument.check(NOW).unwrap_err().to_string();
        assert!(error.starts_with("untill: is not a field of this command; its fields are by, why"), "{error}");
        assert_eq!(argument.command, command, "a replay takes what an earlier version accepted");
    }

    #[test]
    fn each_command_refuses_a_field_that_it_does_not_have() {
        takes_its_fields_only(order());
        takes_its_fields_only(HoldCommand { order: order(), until: Some(Timestamp::UNIX_EPOCH) });
        takes_its_fields_only(ReleaseCommand { order: order(), spread: true });
        takes_its_fields_only(RetimeCommand { order: order(), at: Some(Timestamp::UNIX_EPOCH) });
        takes_its_fields_only(ReopenCommand { order: order(), digest_id: Uuid::nil(), may_duplicate: true });
        takes_its_fields_only(RetryCommand { order: order(), may_duplicate: true });
    }

    #[test]
    fn a_time_that_is_over_is_refused() {
        // An unset `time.Time` of Go.
        let unset = json!({"by": "ann", "why": "x", "until": "0001-01-01T00:00:00Z"});
        let argument: OperatorArgument<HoldCommand> = from_value(unset).unwrap();
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), "until: is in the past: 0001-01-01T00:00:00Z");
        let argument = OperatorArgument::from(RetimeCommand { order: order(), at: Some(NOW) });
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), format!("at: is in the past: {NOW}"));
    }

    #[test]
    fn a_faulty_order_is_refused_too() {
        let argument: OperatorArgument<HoldCommand> = from_value(json!({"by": "", "why": "x"})).unwrap();
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), "by: is required");
        assert!(from_value::<OperatorArgument<HoldCommand>>(json!({"by": "ann"})).is_err(), "a field is missing");
    }

    fn read<C: OperatorCommand + DeserializeOwned>(payloads: &[(&str, &str)]) -> Result<OperatorArgument<C>, String> {
        let payloads: Vec<_> = payloads
            .iter()
            .map(|(encoding, data)| SignalPayload {
                encoding: encoding.as_bytes(),
                message_type: b"",
                data: data.as_bytes(),
            })
            .collect();
        OperatorArgument::parse_payloads(&payloads).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn an_argument_that_cannot_be_read_is_refused_with_what_is_needed() {
        let needs = "send one JSON object as json/plain, its fields are by, why, until";
        for (payloads, says) in [
            (&[][..], "argument: is missing; send one"),
            (&[("binary/null", "")], "argument: encoding is binary/null: the argument is null"),
            (&[("binary/encrypted", "x")], "argument: encoding is binary/encrypted: a payload codec"),
            (&[("json/plain", "{}"), ("json/plain", "{}")], "argument: is one of 2"),
            (&[("json/plain", "{")], "argument: is not JSON"),
            (&[("json/plain", "null")], "argument: is null"),
            (&[("json/plain", "[1]")], "argument: is a list"),
        ] {
            let error = read::<HoldCommand>(payloads).unwrap_err();
            assert!(error.starts_with(says) && error.contains(needs), "{error}");
        }
    }

    #[test]
    fn a_field_of_another_type_is_refused_by_its_name() {
        let hold =
            |field: &str| read::<HoldCommand>(&[("json/plain", &format!(r#"{{"by":"ann","why":"x",{field}}}"#))]);
        for (field, says) in [
            (
                r#""until":1795860000123"#,
                "until: is outside the years 1 to 9999 as seconds since 1970; is it in milliseconds?",
            ),
            (r#""until":"2026-11-28T10:00:00""#, "until: has no offset from UTC"),
            (r#""until":"tomorrow""#, "until: is not a time as in RFC 3339"),
            (r#""until":{}"#, "until: is an object"),
        ] {
            assert!(hold(field).unwrap_err().starts_with(says), "{field}: {:?}", hold(field));
        }
        for (until, expected) in
            [(r#""2026-11-28T10:00:00.5Z""#, Some(500)), ("1795860000.5", Some(500)), ("null", None)]
        {
            let until = hold(&format!(r#""until":{until}"#)).unwrap().command.until;
            assert_eq!(until.map(Timestamp::as_millisecond), expected.map(|ms| 1_795_860_000_000 + ms));
        }
        let reopen = |json: &str| read::<ReopenCommand>(&[("json/plain", json)]).unwrap_err();
        assert_eq!(reopen(r#"{"by":"ann","why":"x"}"#), "digest_id: is required");
        assert_eq!(read::<HoldCommand>(&[("json/plain", r#"{"why":"x"}"#)]).unwrap_err(), "by: is required");
        assert_eq!(reopen(r#"{"by":7,"why":"x","digest_id":"a"}"#), "by: is a number, not a text");
        assert_eq!(
            reopen(r#"{"by":"ann","why":"x","digest_id":"a@b"}"#),
            "digest_id: is a text that this field does not take"
        );
        assert_eq!(
            reopen(r#"{"by":"ann","why":"x","digest_id":"00000000-0000-0000-0000-000000000000","may_duplicate":1}"#),
            "may_duplicate: is a number that this field does not take"
        );
    }
}
