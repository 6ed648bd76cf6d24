//! Dead letters that are emitted again after the producer's fault is fixed, once each (rule 36).
//!
//! The events go out before the letter is marked. A crash in between loses nothing: the letter is emitted once more, and the ledger
//! knows the events by their `event_id` (rule 3). Of two operators at once, both emit the same events, and one marks the letter.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use jiff::Timestamp;
use serde::Serialize;
use tidings_client::Client;
use tidings_model::{
    Key,
    command::Order,
    decode::{Again, decode_again},
    records::{DeadLetterId, Emitted},
};
use tidings_store::Store;

mod id;
pub mod list;
mod shown;
pub mod webhook;

pub use id::LetterId;
pub use shown::{ShownLetter, shown};

/// The reason why a dead letter was not emitted, or not marked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not have the letter.
    #[error("there is no dead letter {0}; see tidings dead-letters list")]
    Unknown(DeadLetterId),
    /// The letter was emitted before.
    #[error("dead letter {id} was emitted already, by {} at {:.0}", emitted.by, emitted.at)]
    Emitted { id: DeadLetterId, emitted: Emitted },
    /// The letter is still malformed, or not kept as a whole.
    #[error("dead letter {id} cannot be emitted: {why}")]
    Refused { id: DeadLetterId, why: String },
    /// Temporal did not take all of the letter.
    #[error("dead letter {id} was not emitted as a whole: {error}; run the command again, an event counts once")]
    NotTaken { id: DeadLetterId, error: tidings_client::Error },
    /// The letter was emitted, and the store did not record that.
    #[error("dead letter {id} was emitted, but not marked: {error}; run the command again, an event counts once")]
    NotMarked { id: DeadLetterId, error: tidings_store::Error },
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// The contents of a letter that was emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub events: usize,
    pub retracts: usize,
    /// The keys that got them.
    pub keys: BTreeSet<Key>,
}

/// The emission of a letter, as its JSON is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Emission {
    /// The letter.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: DeadLetterId,
    pub events: usize,
    pub retracts: usize,
    /// The keys that got them.
    pub keys: Vec<String>,
}

impl Sent {
    /// The emission of this letter.
    #[must_use]
    pub fn of(&self, id: &DeadLetterId) -> Emission {
        let Self { events, retracts, keys } = self;
        let keys = keys.iter().map(ToString::to_string).collect();
        Emission { id: id.clone(), events: *events, retracts: *retracts, keys }
    }
}

/// Emits the letter's events and retracts to the keys that they name, and marks the letter.
///
/// # Errors
/// See [`Error`].
pub async fn emit(store: &dyn Store, client: &Client, id: &DeadLetterId, order: &Order) -> Result<Sent, Error> {
    let letter = store.dead_letter(None, id).await?.ok_or_else(|| Error::Unknown(id.clone()))?;
    if let Some(emitted) = &letter.record.emitted {
        return Err(Error::Emitted { id: id.clone(), emitted: emitted.clone() });
    }
    let again = decode_again(&letter).map_err(|why| Error::Refused { id: id.clone(), why });
    let Again { events, retracts, keys } = again?;
    let sent = Sent { events: events.len(), retracts: retracts.len(), keys };
    // All at once, so that those of one key share a signal.
    let events = try_join_all(events.into_iter().map(|event| client.emit(event)));
    let retracts = try_join_all(retracts.into_iter().map(|retract| client.retract(retract)));
    tokio::try_join!(events, retracts).map_err(|error| Error::NotTaken { id: id.clone(), error })?;
    let mut entry = order.entry("dead_letter_emit", Timestamp::now());
    entry.why = format!("{id}: {}", entry.why);
    let marked = store.mark_emitted(id, &sent.keys, &entry).await;
    match marked.map_err(|error| Error::NotMarked { id: id.clone(), error })? {
        None => Ok(sent),
        Some(emitted) => Err(Error::Emitted { id: id.clone(), emitted }),
    }
}
