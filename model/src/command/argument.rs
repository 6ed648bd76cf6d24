//! The argument of a command as the workflow gets it. A field that the command does not have is kept until the check refuses
//! it: a replay reads arguments that an earlier version accepted.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

use super::{Hold, Order, Release, Reopen, Retime};
use crate::limits::Invalid;

/// A command that an operator gives.
pub trait Command {
    /// The names of the fields in JSON.
    const FIELDS: &'static [&'static str];

    /// The operator and the reason.
    fn order(&self) -> &Order;

    /// The time until or at which the command has an effect, with the name of its field.
    fn time(&self) -> Option<(&'static str, Timestamp)> {
        None
    }
}

macro_rules! command {
    ($command:ty, $($field:literal),*) => {
        impl Command for $command {
            const FIELDS: &'static [&'static str] = &["by", "why", $($field),*];

            fn order(&self) -> &Order {
                &self.order
            }
        }
    };
}

impl Command for Hold {
    const FIELDS: &'static [&'static str] = &["by", "why", "until"];

    fn order(&self) -> &Order {
        &self.order
    }

    fn time(&self) -> Option<(&'static str, Timestamp)> {
        Some(("until", self.until?))
    }
}

impl Command for Retime {
    const FIELDS: &'static [&'static str] = &["by", "why", "at"];

    fn order(&self) -> &Order {
        &self.order
    }

    fn time(&self) -> Option<(&'static str, Timestamp)> {
        Some(("at", self.at?))
    }
}

command!(Release, "spread");
command!(Reopen, "digest_id", "may_duplicate");

impl Command for Order {
    const FIELDS: &'static [&'static str] = &["by", "why"];

    fn order(&self) -> &Order {
        self
    }
}

/// A command with the names of fields that the command does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<C> {
    pub command: C,
    unknown: Vec<String>,
}

impl<C: Command> Argument<C> {
    /// Refuses unknown fields, a faulty order, and a time that is over: the workflow checks, so that command line, API and update answer
    /// the same.
    ///
    /// # Errors
    /// Names the field, what is wrong and the remedy.
    pub fn check(&self, now: Timestamp) -> Result<(), Invalid> {
        if let Some(field) = self.unknown.first() {
            let problem = format!("is not a field of this command; its fields are {}", C::FIELDS.join(", "));
            return Err(Invalid::new(&field.escape_debug().take(64).collect::<String>(), problem));
        }
        if let Some((field, at)) = self.command.time().filter(|(_, at)| *at <= now) {
            return Err(Invalid::new(field, format!("is in the past: {at}")));
        }
        self.command.order().check()
    }
}

impl<C> From<C> for Argument<C> {
    fn from(command: C) -> Self {
        Self { command, unknown: Vec::new() }
    }
}

impl<C: Serialize> Serialize for Argument<C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.command.serialize(serializer)
    }
}

impl<'de, C: Command + DeserializeOwned> Deserialize<'de> for Argument<C> {
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
    use crate::message::command::Retry;

    const NOW: Timestamp = Timestamp::constant(-1, 0);

    fn order() -> Order {
        Order { by: "ann".into(), why: "ticket 812".into() }
    }

    /// Checks the command with all its fields, and with one more.
    fn takes_its_fields_only<C>(command: C)
    where
        C: Command + Serialize + DeserializeOwned + Clone + PartialEq + fmt::Debug,
    {
        let mut json = to_value(&command).unwrap();
        let names: BTreeSet<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, C::FIELDS.iter().map(|name| (*name).to_owned()).collect(), "{command:?}");
        let argument: Argument<C> = from_value(json.clone()).unwrap();
        assert_eq!((argument.check(NOW), &argument), (Ok(()), &Argument::from(command.clone())));
        assert_eq!(to_value(&argument).unwrap(), json);

        json["untill"] = json!(null);
        let argument: Argument<C> = from_value(json).unwrap();
        let error = argument.check(NOW).unwrap_err().to_string();
        assert!(error.starts_with("untill: is not a field of this command; its fields are by, why"), "{error}");
        assert_eq!(argument.command, command, "a replay takes what an earlier version accepted");
    }

    #[test]
    fn each_command_refuses_a_field_that_it_does_not_have() {
        takes_its_fields_only(order());
        takes_its_fields_only(Hold { order: order(), until: Some(Timestamp::UNIX_EPOCH) });
        takes_its_fields_only(Release { order: order(), spread: true });
        takes_its_fields_only(Retime { order: order(), at: Some(Timestamp::UNIX_EPOCH) });
        takes_its_fields_only(Reopen { order: order(), digest_id: Uuid::nil(), may_duplicate: true });
        takes_its_fields_only(Retry { order: order(), may_duplicate: true });
    }

    #[test]
    fn a_time_that_is_over_is_refused() {
        // An unset `time.Time` of Go.
        let unset = json!({"by": "ann", "why": "x", "until": "0001-01-01T00:00:00Z"});
        let argument: Argument<Hold> = from_value(unset).unwrap();
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), "until: is in the past: 0001-01-01T00:00:00Z");
        let argument = Argument::from(Retime { order: order(), at: Some(NOW) });
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), format!("at: is in the past: {NOW}"));
    }

    #[test]
    fn a_faulty_order_is_refused_too() {
        let argument: Argument<Hold> = from_value(json!({"by": "", "why": "x"})).unwrap();
        assert_eq!(argument.check(NOW).unwrap_err().to_string(), "by: is required");
        assert!(from_value::<Argument<Hold>>(json!({"by": "ann"})).is_err(), "a field is missing");
    }
}
