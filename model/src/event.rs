//! An event that passed the edge. Code behind the edge relies on the limits and never checks them again.

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

/// The first instant of year 1.
const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// One fact for one key. The key itself is the workflow's and not repeated here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Idempotency key within the [`Key`].
    pub event_id: String,
    /// The kind of event.
    pub category: String,
    /// Further kinds under which the same id came. No wire has this field: [`Event::merge`] fills it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub other_categories: BTreeSet<String>,
    /// The type of the entity that the event is about; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entity_type: String,
    /// The id of the entity; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub entity_id: String,
    /// The name of the person who caused the event, as the message shows it; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Time of the event, by the producer's clock.
    pub occurred_at: Timestamp,
    /// Numbers that add up over a group.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, i64>,
    /// Makes the whole window due at once (rule 14).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// The values that templates show: `title`, `url`, `excerpt` and anything else.
    #[serde(default, skip_serializing_if = "Payload::is_empty")]
    pub payload: Payload,
}

impl Event {
    /// Checks a wire event against the contract's limits and splits it into its key and the rest. Empty parts of the
    /// key are those of `default`, where there is one.
    ///
    /// # Errors
    /// The first field over its limit, or missing.
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
