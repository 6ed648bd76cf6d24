//! Handles a click on a message's unsubscribe link, for the gateway and the command line.

use jiff::Timestamp;
use tidings_model::{
    Key, PersonId, UnsubscribeLink,
    delivery_events::WITHDRAW,
    records::{AuditActor, AuditEntry, Suppression, SuppressionReason},
};
use tidings_store::{Store, StoreError};

/// Updates a link whose person may have another id by now. `None` if the person was erased. A link for an
/// address belongs to whoever uses it.
///
/// # Errors
/// If the store fails.
pub async fn of_today(store: &dyn Store, link: UnsubscribeLink) -> Result<Option<UnsubscribeLink>, StoreError> {
    match link {
        UnsubscribeLink::Unsubscribe { key, message, generation } => {
            let key = key_of_today(store, &key, generation).await?;
            Ok(key.map(|key| UnsubscribeLink::Unsubscribe { key, message, generation }))
        }
        UnsubscribeLink::Suppress { .. } => Ok(Some(link)),
    }
}

/// Returns the current key of a link's person, like [`of_today`]. `generation` is the number in the link.
///
/// # Errors
/// If the store fails.
pub async fn key_of_today(store: &dyn Store, key: &Key, generation: u64) -> Result<Option<Key>, StoreError> {
    let owner = store.link_owner(&PersonId::from_key(key), generation).await?;
    Ok(owner.map(|owner| owner.key(&key.digest_type)))
}

/// Withdraws consent to the link's digest type, or suppresses its address for bulk messages, and counts this
/// for the message if still stored. An unknown digest type is withdrawn under the name in the link, until a
/// `was` key maps this name. For a digest type, call [`signal_key`](crate::choices::signal_key) next.
///
/// # Errors
/// If the store fails. Calling this again is safe.
pub async fn unsubscribe(store: &dyn Store, link: &UnsubscribeLink, now: Timestamp) -> Result<(), StoreError> {
    let why = format!("unsubscribed by one click from message {}", link.message());
    let entry = |action: &str| AuditEntry {
        at: now,
        actor: AuditActor::Recipient,
        action: action.to_owned(),
        why: why.clone(),
    };
    match link {
        UnsubscribeLink::Unsubscribe { key, .. } => store.put_consent(key, false, &entry(WITHDRAW)).await?,
        UnsubscribeLink::Suppress { tenant, address, .. } => {
            let (tenant, address, detail) = (tenant.clone(), address.clone(), why.clone());
            let suppression = Suppression { tenant, address, reason: SuppressionReason::Unsubscribed, detail, at: now };
            store.put_suppressions(&[suppression], &entry("suppress")).await?;
        }
    }
    store.count_unsubscribed(link.message()).await
}
