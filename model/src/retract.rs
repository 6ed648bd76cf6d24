//! Withdraws events: something was deleted, read or resolved before its message was sent (rule 6).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tidings_proto::v1;

use crate::{
    Event, Key,
    limits::{self, InvalidField},
    wire::ContractEdition,
};

/// Selects a key's events to withdraw. A retract may arrive before or after its events, and any number of
/// times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retract {
    Event(String),
    /// By id, if it occurred by `until`: a redelivered retract must not withdraw an alert that fired again.
    /// Never part of workflow state, because earlier versions cannot read it.
    EventUntil {
        event_id: String,
        until: Timestamp,
    },
    /// All events of one category about one entity.
    Entity {
        category: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        entity_type: String,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        entity_id: String,
        /// Inclusive, by the producer's clock. Later events are new and stay.
        until: Timestamp,
    },
}

impl Retract {
    /// Validates a wire retract and splits off its key. Missing key parts come from `default`.
    ///
    /// # Errors
    /// Names the first field that is missing or over its limit; or it has both an event id and a category.
    pub fn from_wire(wire: v1::Retract, default: Option<&Key>) -> Result<(Key, Self), InvalidField> {
        Self::from_wire_by(ContractEdition::Today, wire, default)
    }

    pub(crate) fn from_wire_by(
        edition: ContractEdition,
        wire: v1::Retract,
        default: Option<&Key>,
    ) -> Result<(Key, Self), InvalidField> {
        let key = Key::of_wire(&wire.tenant, &wire.digest, &wire.user, default)?;
        let v1::Retract { event_id, category, entity_type, entity_id, occurred_at, .. } = wire;
        let of_entity = [("category", &category), ("entity_type", &entity_type), ("entity_id", &entity_id)];
        if event_id.is_empty() {
            if category.is_empty() {
                return Err(InvalidField::new("event_id", "is required, or else category and occurred_at"));
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
            return Err(InvalidField::new("event_id", problem));
        }
        limits::check_id("event_id", &event_id)?;
        Ok((key, Self::Event(event_id)))
    }

    #[must_use]
    pub fn with_until(self, until: Timestamp) -> Self {
        match self {
            Self::Event(event_id) => Self::EventUntil { event_id, until },
            dated => dated,
        }
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Event(id) | Self::EventUntil { event_id: id, .. } => id.len(),
            Self::Entity { category, entity_type, entity_id, .. } => {
                category.len() + entity_type.len() + entity_id.len()
            }
        }
    }

    /// Compares times in milliseconds, as the ledger does.
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
