//! The argument of an update as it arrives.

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};
use tidings_model::{
    command::{Argument, Command},
    limits::Invalid,
};

use crate::{driver::Checked, inbound::signal_payload};

/// The command of an operator, or why it cannot be read. If reading failed here, the SDK would answer `Wrong encoding`, which names
/// neither the field nor what is needed; the validator does.
#[derive(Clone, Debug)]
pub struct CommandArgument<C>(Result<Argument<C>, Invalid>);

impl<C: Command> CommandArgument<C> {
    pub(crate) fn check(&self, now: Timestamp) -> Checked {
        Ok(self.0.as_ref().map_err(Invalid::clone)?.check(now)?)
    }

    /// The command, which the validator has checked. In a replay of a command of a later version, the task fails and waits for that.
    pub(crate) fn command(self) -> C {
        self.0.expect("the validator refuses what cannot be read").command
    }
}

impl<C> From<C> for CommandArgument<C> {
    fn from(command: C) -> Self {
        Self(Ok(command.into()))
    }
}

impl<C: Command + DeserializeOwned> TemporalDeserializable for CommandArgument<C> {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        let payloads: Vec<_> = payloads.iter().map(signal_payload).collect();
        Ok(Self(Argument::read(&payloads)))
    }
}

impl<C: Serialize> TemporalSerializable for CommandArgument<C> {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        let argument = self.0.as_ref().map_err(|_| PayloadConversionError::WrongEncoding)?;
        let data = serde_json::to_vec(argument).map_err(|error| PayloadConversionError::EncodingError(error.into()))?;
        let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
        Ok(Payload { metadata, data, ..Payload::default() })
    }
}

#[cfg(test)]
mod tests {
    use temporalio_common::data_converters::{
        GenericPayloadConverter as _, PayloadConverter, SerializationContextData,
    };
    use tidings_model::command::{Hold, Order};

    use super::*;

    fn read(payloads: Vec<Payload>) -> CommandArgument<Hold> {
        let (converter, data) = (PayloadConverter::default(), SerializationContextData::None);
        converter.from_payloads(&SerializationContext::new(&data, &converter), payloads).unwrap()
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let hold = Hold { order: Order { by: "ann".into(), why: "x".into() }, until: None };
        let (converter, data) = (PayloadConverter::default(), SerializationContextData::None);
        let context = SerializationContext::new(&data, &converter);
        let argument = read(converter.to_payloads(&context, &CommandArgument::from(hold.clone())).unwrap());
        assert!(argument.check(Timestamp::MIN).is_ok());
        assert_eq!(argument.command(), hold);
    }

    #[test]
    fn a_missing_or_encrypted_argument_is_refused_with_what_is_needed() {
        let encrypted =
            Payload { metadata: [("encoding".to_owned(), b"binary/encrypted".to_vec())].into(), ..Payload::default() };
        for (payloads, says) in
            [(vec![], "argument: is missing"), (vec![encrypted], "argument: encoding is binary/encrypted")]
        {
            let error = read(payloads).check(Timestamp::MIN).unwrap_err().to_string();
            assert!(error.starts_with(says) && error.ends_with("its fields are by, why, until"), "{error}");
        }
    }
}
