//! A single message that waits has the sender, the links and the signature of today, until an attempt has passed the dot (rule 60). Its
//! content stays its sender's.

use jiff::Timestamp;
use tidings_model::records::{MessageRecord, Origin};
use tidings_services::{deps::Deps, error::Error, message_configuration::Configuration};

/// Makes the message again if the configuration is another one than it was made from. After a dot its bytes stand, and so do those of a
/// message that an earlier version accepted.
///
/// # Errors
/// The store cannot answer, or the message cannot be composed or signed.
pub(super) async fn follow_configuration(deps: &Deps, record: &MessageRecord, now: Timestamp) -> Result<(), Error> {
    let Origin::Single { key, user, .. } = &record.origin else { return Ok(()) };
    let Deps { settings, signers, store, .. } = deps;
    let (stream, user, address) = (record.stream, user.as_deref(), record.envelope_to.as_str());
    let today = Configuration { settings, signers, key, stream, user, address };
    let made_from = today.made_from().map_err(|error| Error::Render(error.to_string()))?;
    if record.made_from.is_empty() || record.made_from == made_from {
        return Ok(());
    }
    let Some((message, epoch)) = store.waiting_message(record.id).await? else { return Ok(()) };
    let Some(again) = today.applied(&message)? else {
        tracing::warn!(id = %record.id, "a message keeps its sender and links, because it cannot be read back");
        return Ok(());
    };
    // If another call was faster, the attempt sends what that one stored.
    store.remake_message(&again, epoch, "the sender, the links or the signature changed", now).await?;
    Ok(())
}
