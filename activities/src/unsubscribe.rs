//! A recipient's click on the unsubscribe link of a message. The gateway and the command line call this function.

use jiff::Timestamp;
use tidings_model::{
    Link,
    delivery_events::WITHDRAW,
    records::{Actor, AuditEntry, Reason, Suppression},
};
use tidings_store::{Error, Store};

/// Withdraws consent to the digest type of the link, or suppresses the address of the link for bulk messages. The report counts the
/// message if it is still stored. A repeated call changes nothing. The link needs neither its message nor a configured digest type.
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
