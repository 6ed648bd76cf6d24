//! What takes events back: something was deleted, read or resolved before the mail about it went out (rule 6).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Event;

/// Which events of a key are taken back. It says the same before and after they arrive, and as often as one likes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retract {
    /// The event with this id.
    Event(String),
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
    /// Bytes of its texts.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Event(id) => id.len(),
            Self::Entity { category, entity_type, entity_id, .. } => {
                category.len() + entity_type.len() + entity_id.len()
            }
        }
    }

    /// Whether it takes this event back.
    #[must_use]
    pub fn covers(&self, event: &Event) -> bool {
        match self {
            Self::Event(id) => *id == event.event_id,
            Self::Entity { category, entity_type, entity_id, until } => {
                *category == event.category
                    && *entity_type == event.entity_type
                    && *entity_id == event.entity_id
                    && event.occurred_at <= *until
            }
        }
    }
}
