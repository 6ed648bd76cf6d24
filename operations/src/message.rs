//! Retries or cancels a message by its id. The outbox records which workflow owns it.

use std::time::Duration;

use tidings_client::{CommandError, WorkflowCommands};
use tidings_model::{
    Key,
    command::{CommandContext, DropResult, ReopenCommand, ReopenResult},
    message::{
        command::{CancelResult, RetryCommand},
        contract::RetryResult,
    },
    records::{MessageOrigin, MessageRecord, MessageState},
};
use tidings_store::Store;
use tidings_workflows::DigestStatus;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

const PAUSE: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    #[error("the outbox has no message {0}; see tidings messages list")]
    Unknown(Uuid),
    #[error("message {id} is {} already", state.name())]
    Ended { id: Uuid, state: MessageState },
    /// The key's workflow is not delivering this digest. Dropping now would discard other events for the key.
    #[error("digest {id} is not in delivery, see tidings status {key}; after a terminated run, tidings recover {key}")]
    NotInDelivery { id: Uuid, key: Key },
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    Store(#[from] tidings_store::StoreError),
}

#[derive(Debug)]
pub enum RetryAnswer {
    Digest { key: Key, reopened: ReopenResult },
    Single(RetryResult),
}

#[derive(Debug)]
pub enum CancelAnswer {
    /// The message belongs to a digest, so we dropped the digest. `state` is the message's state afterwards.
    Digest {
        key: Key,
        dropped: DropResult,
        state: MessageState,
    },
    Single(CancelResult),
}

/// Looks up a message by id.
///
/// # Errors
/// If the outbox lacks the message, or the store fails.
pub async fn find(store: &dyn Store, id: Uuid) -> Result<MessageRecord, MessageError> {
    store.message(id).await?.ok_or(MessageError::Unknown(id))
}

/// Sends a message again. For a digest's message, this reopens the digest.
///
/// # Errors
/// See [`MessageError`].
pub async fn retry(
    store: &dyn Store,
    commands: &WorkflowCommands,
    id: Uuid,
    retry: RetryCommand,
) -> Result<RetryAnswer, MessageError> {
    let message = find(store, id).await?;
    Ok(match message.origin {
        MessageOrigin::Digest(key) => {
            let RetryCommand { order, may_duplicate } = retry;
            let reopened = commands.digest(&key).reopen(ReopenCommand { order, digest_id: id, may_duplicate }).await?;
            RetryAnswer::Digest { key, reopened }
        }
        MessageOrigin::Single { key, .. } => {
            RetryAnswer::Single(commands.message(&key, message.stream).retry(retry).await?)
        }
    })
}

/// Stops sending a message. For a digest's message, this drops the digest together with the key's pending
/// events.
///
/// # Errors
/// See [`MessageError`].
pub async fn cancel(
    store: &dyn Store,
    commands: &WorkflowCommands,
    id: Uuid,
    order: CommandContext,
) -> Result<CancelAnswer, MessageError> {
    let message = find(store, id).await?;
    let ended = message.closed().is_some();
    match message.origin {
        MessageOrigin::Digest(_) if ended => Err(MessageError::Ended { id, state: message.state }),
        MessageOrigin::Digest(key) => {
            let status = commands.digest(&key).status::<DigestStatus>().await?;
            if status.and_then(|status| status.delivering).is_none_or(|digest| digest.digest_id != id) {
                return Err(MessageError::NotInDelivery { id, key });
            }
            let dropped = commands.digest(&key).drop_pending(order).await?;
            Ok(CancelAnswer::Digest { key, dropped, state: state_after(store, id).await? })
        }
        MessageOrigin::Single { key, .. } => {
            Ok(CancelAnswer::Single(commands.message(&key, message.stream).cancel(order).await?))
        }
    }
}

async fn state_after(store: &dyn Store, id: Uuid) -> Result<MessageState, MessageError> {
    let until = Instant::now() + PATIENCE;
    loop {
        let message = find(store, id).await?;
        if message.closed().is_some() || Instant::now() >= until {
            return Ok(message.state);
        }
        sleep(PAUSE).await;
    }
}
