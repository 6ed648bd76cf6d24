//! Dead letters of webhooks that are recorded after an upgrade that can read them, once each (rule 36).

use jiff::Timestamp;
use tidings_model::{
    command::Order,
    delivery_events::{LetterEmitted, Reported},
    records::{Emitted, WebhookLetterId},
    settings::Settings,
};
use tidings_store::Store;

use crate::delivery_events::{Received, add_names, followed};

/// The reason why a dead letter was not emitted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store does not have the letter.
    #[error("there is no dead letter {0}; see tidings dead-letters list")]
    Unknown(WebhookLetterId),
    /// The letter was emitted before.
    #[error("dead letter {id} was emitted already, by {} at {:.0}", emitted.by, emitted.at)]
    Emitted { id: WebhookLetterId, emitted: Emitted },
    /// The store cannot answer, and nothing was recorded.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// Records the events of a letter with their effects, and marks the letter, in one transaction. `events` is what this version reads
/// in the letter. Tell the keys of [`Received::withdrawn`].
///
/// # Errors
/// See [`Error`].
pub async fn emit(
    store: &dyn Store,
    settings: &Settings,
    id: &WebhookLetterId,
    mut events: Vec<Reported>,
    order: &Order,
) -> Result<Received, Error> {
    for event in &mut events {
        event.relay = Some(id.relay.clone());
        add_names(event, settings);
    }
    let now = Timestamp::now();
    let mut entry = order.entry("dead_letter_emit", now);
    entry.why = format!("{id}: {}", entry.why);
    match store.emit_webhook_letter(id, &events, settings.soft_bounces, &entry).await? {
        LetterEmitted::Now(recorded) => Ok(followed(store, settings, &events, recorded, now).await),
        LetterEmitted::Before(emitted) => Err(Error::Emitted { id: id.clone(), emitted }),
        LetterEmitted::Unknown => Err(Error::Unknown(id.clone())),
    }
}
