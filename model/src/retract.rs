//! Withdrawal of events: something was deleted, read or resolved before its message went out (rule 6).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_proto::v1;

use crate::{
    Event, Key,
    limits::{self, Invalid},
    wire::Edition,
};

/// The events of a key to withdraw. A retract may arrive before or after its events, and any number of times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retract {
    /// The event with this id.
    Event(String),
    /// The event with this id, if it occurred until then: a retract that the store may get once more after the next firing of an alert.
    /// No workflow has one in its state, because an earlier version could not read it.
    EventUntil {
        /// As in [`Event::event_id`].
        event_id: String,
        /// The latest time that is covered.
        until: Timestamp,
    },
    /// All of one category about one entity.
    Entity {
        /// As in [`Event::category`].
        category: String,
        /// As in [`Event::entity_type`].
        #[serde(default, skip_serializing_if = "String::is_empty")]
        entity_type: String,
        /// As in [`Event::entity_id`].
        #[serde(default, skip_serializing_if = "String::is_empty")]
        entity_id: String,
        /// Only what occurred until then, by the producer's clock; what occurs later is new.
        until: Timestamp,
    },
}

impl Retract {
    /// Checks a wire retract against the contract's limits and splits it into its key and the rest. Empty parts of the
    /// key are those of `default`, where there is one.
    ///
    /// # Errors
    /// The first field over its limit or missing; or the retract names both an event and a category.
    pub fn from_wire(wire: v1::Retract, default: Option<&Key>) -> Result<(Key, Self), Invalid> {
        Self::from_wire_by(Edition::Today, wire, default)
    }

    pub(crate) fn from_wire_by(
        edition: Edition,
        wire: v1::Retract,
        default: Option<&Key>,
    ) -> Result<(Key, Self), Invalid> {
        let key = Key::of_wire(&wire.tenant, &wire.digest, &wire.user, default)?;
        let v1::Retract { event_id, category, entity_type, entity_id, occurred_at, .. } = wire;
        let of_entity = [("category", &category), ("entity_type", &entity_type), ("entity_id", &entity_id)];
        if event_id.is_empty() {
            if category.is_empty() {
                return Err(Invalid::new("event_id", "is required, or else category and occurred_at"));
            }
            for (field, value) in of_entity {
                limits::optional_id(field, value)?;
            }
            let until = Event::occurred_at(edition, occurred_at)?;
            return Ok((key, Self::Entity { category, entity_type, entity_id, until }));
        }
        let mut given = of_entity.into_iter().filter(|(_, value)| !value.is_empty()).map(|(field, _)| field);
        if let Some(field) = given.next().or(occurred_at.map(|_| "occurred_at")) {
            let problem = format!("cannot be combined with {field}; give event_id alone, or category and occurred_at");
            return Err(Invalid::new("event_id", problem));
        }
        limits::id("event_id", &event_id)?;
        Ok((key, Self::Event(event_id)))
    }

    /// The same retract, in which one by id covers what occurred until then.
    #[must_use]
    pub fn until(self, until: Timestamp) -> Self {
        match self {
            Self::Event(event_id) => Self::EventUntil { event_id, until },
            dated => dated,
        }
    }

    /// Bytes of its texts.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Event(id) | Self::EventUntil { event_id: id, .. } => id.len(),
            Self::Entity { category, entity_type, entity_id, .. } => {
                category.len() + entity_type.len() + entity_id.len()
            }
        }
    }

    /// Tells if the retract covers this event. Times are compared in milliseconds, as in the ledger.
    #[must_use]
    pub fn covers(&self, event: &Event) -> bool {
        match self {
            Self::Event(id) => *id == event.event_id,
            Self::EventUntil { event_id, until } => *event_id == event.event_id && !event.occurred_after(*until),
            Self::Entity { category, entity_type, entity_id, until } => {
                *category == event.category
                    && *entity_type == event.entity_type
                    && *entity_id == event.entity_id
                    && event.occurred_at.as_millisecond() <= until.as_millisecond()
            }
        }
    }
}
