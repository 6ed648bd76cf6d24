//! Handles a click on a message's unsubscribe link, for the gateway and the command line.

use jiff::Timestamp;
use tidings_model::{
    Key, Link, PersonId,
    delivery_events::WITHDRAW,
    records::{Actor, AuditEntry, Reason, Suppression},
};
use tidings_store::{Error, Store};

/// Updates a link whose person may have another id by now. Returns `None` if the person was erased. A link
/// for an address belongs to whoever uses it.
///
/// # Errors
/// If the store fails.
pub async fn of_today(store: &dyn Store, link: Link) -> Result<Option<Link>, Error> {
    match link {
        Link::Unsubscribe { key, message, generation } => {
            let key = key_of_today(store, &key, generation).await?;
            Ok(key.map(|key| Link::Unsubscribe { key, message, generation }))
        }
        Link::Suppress { .. } => Ok(Some(link)),
    }
}

/// Returns the current key of a link's person, like [`of_today`]. `generation` is the number in the link.
///
/// # Errors
/// If the store fails.
pub async fn key_of_today(store: &dyn Store, key: &Key, generation: u64) -> Result<Option<Key>, Error> {
    let owner = store.link_owner(&PersonId::of(key), generation).await?;
    Ok(owner.map(|owner| owner.key(&key.digest_type)))
}

/// Withdraws consent to the link's digest type, or suppresses its address for bulk messages, and counts this
/// for the message if still stored. An unknown digest type is withdrawn under the name in the link, until a
/// `was` key maps this name. For a digest type, call [`tell`](crate::choices::tell) next.
///
/// # Errors
/// If the store fails. Calling this again is safe.
pub async fn unsubscribe(store: &dyn Store, link: &Link, now: Timestamp) -> Result<(), Error> {
    let why = format!("unsubscribed by one click from message {}", link.message());
    let entry =
        |action: &str| AuditEntry { at: now, actor: Actor::Recipient, action: action.to_owned(), why: why.clone() };
    match link {
        Link::Unsubscribe { key, .. } => store.put_consent(key, false, &entry(WITHDRAW)).await?,
        Link::Suppress { tenant, address, .. } => {
            let (tenant, address, detail) = (tenant.clone(), address.clone(), why.clone());
            let suppression = Suppression { tenant, address, reason: Reason::Unsubscribed, detail, at: now };
            store.put_suppressions(&[suppression], &entry("suppress")).await?;
        }
    }
    store.count_unsubscribed(link.message()).await
}
