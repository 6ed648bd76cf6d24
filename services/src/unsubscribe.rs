//! A recipient's click on the unsubscribe link of a message. The gateway and the command line call this function.

use jiff::Timestamp;
use tidings_model::{
    Key, Link, PersonId,
    delivery_events::WITHDRAW,
    records::{Actor, AuditEntry, Reason, Suppression},
};
use tidings_store::{Error, Store};

/// Returns the link as it would be made today: its person may have another id now. `None`: that person was erased, and the link is
/// not ours any more. A link for an address belongs to whoever has the address.
///
/// # Errors
/// The store cannot answer.
pub async fn of_today(store: &dyn Store, link: Link) -> Result<Option<Link>, Error> {
    match link {
        Link::Unsubscribe { key, message, generation } => {
            let key = key_of_today(store, &key, generation).await?;
            Ok(key.map(|key| Link::Unsubscribe { key, message, generation }))
        }
        Link::Suppress { .. } => Ok(Some(link)),
    }
}

/// Returns the key of a link's person today, as for [`of_today`]. `generation` is the number in the link.
///
/// # Errors
/// The store cannot answer.
pub async fn key_of_today(store: &dyn Store, key: &Key, generation: u64) -> Result<Option<Key>, Error> {
    let owner = store.link_owner(&PersonId::of(key), generation).await?;
    Ok(owner.map(|owner| owner.key(&key.digest_type)))
}

/// Withdraws consent to the digest type of the link, or suppresses the address of the link for bulk messages. The report counts the
/// message if it is still stored. A repeated call changes nothing. The link needs neither its message nor a configured digest type:
/// consent to a type that no table has is withdrawn under the name in the link, for the day on which `was` says what it is called.
/// [`tell`](crate::choices::tell) comes next for a digest type.
///
/// # Errors
/// The store cannot answer. Calling again is safe.
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
