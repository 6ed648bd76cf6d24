//! The workflow's start argument: what the run before handed over. Producers start a workflow without any.

use temporalio_common::{
    data_converters::{PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable},
    protos::temporal::api::common::v1::Payload,
};

use crate::{Event, Retract, state::State};

/// `None` in the first run. Anything that is no state, whatever a producer may have passed, counts as none: a start
/// argument that fails to decode would fail every workflow task for ever.
pub struct Carried(pub(crate) Option<State>);

impl Carried {
    /// Reads the start argument of a run.
    #[must_use]
    pub fn read(payloads: &[Payload]) -> Self {
        Self(payloads.first().and_then(|payload| serde_json::from_slice(&payload.data).ok()))
    }

    /// The events that the run before handed over, and what takes events back.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Event>, Vec<Retract>) {
        self.0.map(|state| (state.pending.into_events(), state.retracts.into_iter().collect())).unwrap_or_default()
    }
}

impl TemporalSerializable for Carried {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        let data = serde_json::to_vec(&self.0).map_err(|error| PayloadConversionError::EncodingError(error.into()))?;
        Ok(Payload { metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(), data, ..Payload::default() })
    }
}

impl TemporalDeserializable for Carried {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self::read(&payloads))
    }
}
