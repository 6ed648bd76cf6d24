//! The workflow's start argument: what the run before handed over. Producers start a workflow without any.

use serde::{Serialize, de::DeserializeOwned};
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
        Self(read(payloads))
    }

    /// What takes events back, as far as the store did not know it yet.
    #[must_use]
    pub fn retracts(&self) -> Vec<Retract> {
        self.0.iter().flat_map(|state| &state.retracts).cloned().collect()
    }

    /// Earlier runs whose events are in their histories only.
    #[must_use]
    pub fn runs(&self) -> Vec<String> {
        self.0.iter().filter_map(|state| state.open.as_ref()).flat_map(|open| &open.runs).cloned().collect()
    }

    /// The events that the run before handed over.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        self.0.map(|state| state.pending.into_events()).unwrap_or_default()
    }
}

impl TemporalSerializable for Carried {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        written(&self.0)
    }
}

impl TemporalDeserializable for Carried {
    fn from_payloads(_: &SerializationContext<'_>, payloads: Vec<Payload>) -> Result<Self, PayloadConversionError> {
        Ok(Self::read(&payloads))
    }
}

/// A start argument, if it is one.
pub(crate) fn read<S: DeserializeOwned>(payloads: &[Payload]) -> Option<S> {
    payloads.first().and_then(|payload| serde_json::from_slice(&payload.data).ok())
}

/// A start argument.
pub(crate) fn written(state: &impl Serialize) -> Result<Payload, PayloadConversionError> {
    let data = serde_json::to_vec(state).map_err(|error| PayloadConversionError::EncodingError(error.into()))?;
    Ok(Payload { metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(), data, ..Payload::default() })
}
