//! Keeps a waiting message's sender, links and signature up to date until a commit (rule 60). The content
//! never changes.

use jiff::Timestamp;
use tidings_model::records::{MessageOrigin, MessageRecord};
use tidings_services::{deps::StepServices, error::StepError, message_configuration::MessageConfiguration};

/// Composes the message again if the configuration has changed. Messages from an older version never change.
///
/// # Errors
/// If the store fails, or the message cannot be composed or signed.
pub(super) async fn follow_configuration(
    deps: &StepServices,
    record: &MessageRecord,
    now: Timestamp,
) -> Result<(), StepError> {
    let MessageOrigin::Single { key, user, .. } = &record.origin else { return Ok(()) };
    let StepServices { settings, signers, store, .. } = deps;
    let (stream, user, address) = (record.stream, user.as_deref(), record.envelope_to.as_str());
    let today = MessageConfiguration { settings, signers, key, stream, user, address };
    let made_from = today.made_from().map_err(|error| StepError::Render(error.to_string()))?;
    if record.made_from.is_empty() || record.made_from == made_from {
        return Ok(());
    }
    let Some((message, epoch)) = store.waiting_message(record.id).await? else { return Ok(()) };
    let Some(again) = today.apply_to(&message)? else {
        tracing::warn!(id = %record.id, "message keeps its sender and links, because it cannot be parsed");
        return Ok(());
    };
    // If another call was faster, the attempt will send its result.
    store.remake_message(&again, epoch, "the sender, the links or the signature changed", now).await?;
    Ok(())
}
