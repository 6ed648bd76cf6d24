//! A validated event. Later code need not check the limits again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_proto::v1;

use crate::{
    Key,
    foreign_text::printable_name,
    limits::{self, InvalidField},
    when::{self, TimeError},
    wire::ContractEdition,
};

mod content;
mod payload;

pub use content::{EventContent, EventFate, EventRepetition, RecordedContent};
pub use payload::EventPayload;

const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// One fact for one key; the workflow has the key, so it is not repeated here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Idempotency key within the [`Key`].
    pub event_id: String,
    pub category: String,
    /// Filled by [`Event::merge`]; not part of the wire format.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub other_categories: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entity_type: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entity_id: String,
    /// A display name; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// By the producer's clock.
    pub occurred_at: Timestamp,
    /// Numbers to sum over a line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, i64>,
    /// Makes the whole window due immediately (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Values for templates: `title`, `url`, `excerpt` and anything else.
    #[serde(default, skip_serializing_if = "EventPayload::is_empty")]
    pub payload: EventPayload,
}

impl Event {
    /// Validates a wire event and splits off its key. Empty key parts come from `default`.
    ///
    /// # Errors
    /// Names the first field that is missing or exceeds its limit.
    pub fn from_wire(wire: v1::Event, default: Option<&Key>) -> Result<(Key, Self), InvalidField> {
        Self::from_wire_by(ContractEdition::Today, wire, default)
    }

    pub(crate) fn from_wire_by(
        edition: ContractEdition,
        wire: v1::Event,
        default: Option<&Key>,
    ) -> Result<(Key, Self), InvalidField> {
        let key = Key::of_wire(&wire.tenant, &wire.digest, &wire.user, default)?;
        limits::check_id("event_id", &wire.event_id)?;
        limits::check_id("category", &wire.category)?;
        limits::optional_id("entity_type", &wire.entity_type)?;
        limits::optional_id("entity_id", &wire.entity_id)?;
        limits::optional_id("actor", &wire.actor)?;
        check_counts(edition, &wire.counts)?;
        let occurred_at = Self::occurred_at(edition, wire.occurred_at)?;
        let event = Self {
            event_id: wire.event_id,
            category: wire.category,
            other_categories: BTreeSet::new(),
            entity_type: wire.entity_type,
            entity_id: wire.entity_id,
            actor: wire.actor,
            occurred_at,
            counts: wire.counts,
            urgent: wire.urgent,
            payload: EventPayload::from_wire(wire.payload)?,
        };
        Ok((key, event))
    }

    pub(crate) fn occurred_at(
        edition: ContractEdition,
        wire: Option<tidings_proto::Timestamp>,
    ) -> Result<Timestamp, InvalidField> {
        let at = wire.ok_or_else(|| InvalidField::new("occurred_at", "is required"))?;
        let invalid = |error: TimeError| InvalidField::new("occurred_at", error.to_string());
        match edition {
            ContractEdition::Former => {
                let at = Timestamp::try_from(at).ok().filter(|at| *at >= YEAR_ONE);
                at.ok_or_else(|| invalid(TimeError::OutOfRange))
            }
            ContractEdition::Today => {
                let at = when::from_seconds(at.seconds, at.nanos).map_err(invalid)?;
                if at == YEAR_ONE { Err(invalid(TimeError::Unset)) } else { Ok(at) }
            }
        }
    }
}

fn check_counts(edition: ContractEdition, counts: &BTreeMap<String, i64>) -> Result<(), InvalidField> {
    if counts.len() > limits::COUNTS {
        return Err(InvalidField::new(
            "counts",
            format!("has {} names, the limit is {}", counts.len(), limits::COUNTS),
        ));
    }
    let over = |count: &i64| count.unsigned_abs() > limits::COUNT.unsigned_abs();
    if edition == ContractEdition::Today
        && let Some((name, _)) = counts.iter().find(|(_, count)| over(count))
    {
        return Err(InvalidField::new(&format!("counts.{}", printable_name(name)), limits::over_count()));
    }
    for name in counts.keys() {
        limits::check_id("counts", name)?;
        limits::check_bytes("counts", name.len(), limits::COUNT_NAME_BYTES)?;
    }
    Ok(())
}
