//! A validated event. Later code should not check the limits again.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_proto::v1;

use crate::{
    Key,
    foreign_text::shown,
    limits::{self, Invalid},
    when::{self, TimeError},
    wire::Edition,
};

mod content;
mod payload;

pub use content::{Content, Fate, RecordedContent, Repetition};
pub use payload::Payload;

const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// One fact for one key, which belongs to the workflow and is not repeated here.
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
    /// Numbers to add up over a line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, i64>,
    /// Makes the whole window due immediately (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Values for templates: `title`, `url`, `excerpt` and anything else.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub payload: Payload,
}

impl Event {
    /// Validates a wire event and splits off its key. Empty parts of the key come from `default`.
    ///
    /// # Errors
    /// Names the first field that is missing or exceeds its limit.
    pub fn from_wire(wire: v1::Event, default: Option<&Key>) -> Result<(Key, Self), Invalid> {
        Self::from_wire_by(Edition::Today, wire, default)
    }

    pub(crate) fn from_wire_by(
        edition: Edition,
        wire: v1::Event,
        default: Option<&Key>,
    ) -> Result<(Key, Self), Invalid> {
        let key = Key::of_wire(&wire.tenant, &wire.digest, &wire.user, default)?;
        limits::id("event_id", &wire.event_id)?;
        limits::id("category", &wire.category)?;
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
            payload: Payload::from_wire(wire.payload)?,
        };
        Ok((key, event))
    }

    pub(crate) fn occurred_at(edition: Edition, wire: Option<tidings_proto::Timestamp>) -> Result<Timestamp, Invalid> {
        let at = wire.ok_or_else(|| Invalid::new("occurred_at", "is required"))?;
        let invalid = |error: TimeError| Invalid::new("occurred_at", error.to_string());
        match edition {
            Edition::Former => {
                let at = Timestamp::try_from(at).ok().filter(|at| *at >= YEAR_ONE);
                at.ok_or_else(|| invalid(TimeError::OutOfRange))
            }
            Edition::Today => {
                let at = when::from_seconds(at.seconds, at.nanos).map_err(invalid)?;
                if at == YEAR_ONE { Err(invalid(TimeError::Unset)) } else { Ok(at) }
            }
        }
    }
}

fn check_counts(edition: Edition, counts: &BTreeMap<String, i64>) -> Result<(), Invalid> {
    if counts.len() > limits::COUNTS {
        return Err(Invalid::new("counts", format!("has {} names, the limit is {}", counts.len(), limits::COUNTS)));
    }
    let over = |count: &i64| count.unsigned_abs() > limits::COUNT.unsigned_abs();
    if edition == Edition::Today
        && let Some((name, _)) = counts.iter().find(|(_, count)| over(count))
    {
        return Err(Invalid::new(&format!("counts.{}", shown(name)), limits::over_count()));
    }
    for name in counts.keys() {
        limits::id("counts", name)?;
        limits::bytes("counts", name.len(), limits::COUNT_NAME_BYTES)?;
    }
    Ok(())
}
