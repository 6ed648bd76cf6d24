//! Retry and cancel of a message by its id. The outbox says which workflow owns the message.

use std::time::Duration;

use tidings_client::{CommandError, Commands};
use tidings_model::{
    Key,
    command::{Dropped, Order, Reopen, Reopened},
    message::{
        command::{Cancelled, Retry},
        contract::Retried,
    },
    records::{MessageRecord, MessageState, Origin},
};
use tidings_store::Store;
use tidings_workflows::Status;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// The pause between two looks at a message that is about to end.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for the end of a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// An operation that was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The outbox does not have the message.
    #[error("the outbox has no message {0}; see tidings messages list")]
    Unknown(Uuid),
    /// The message has ended already.
    #[error("message {id} is {} already", state.name())]
    Ended {
        /// The id of the message.
        id: Uuid,
        /// The state of the message.
        state: MessageState,
    },
    /// The key's workflow is not delivering the digest. A drop would end other events of the key.
    #[error("digest {id} is not in delivery, see tidings status {key}; after a terminated run, tidings recover {key}")]
    NotInDelivery {
        /// The id of the digest.
        id: Uuid,
        /// The key of the digest.
        key: Key,
    },
    /// The workflow did not carry out the command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
}

/// The answer to a retry.
#[derive(Debug)]
pub enum RetryAnswer {
    /// The message belongs to a digest, which was reopened or not.
    Digest { key: Key, reopened: Reopened },
    /// The message is a single one.
    Single(Retried),
}

/// The answer to a cancel.
#[derive(Debug)]
pub enum CancelAnswer {
    /// The message belongs to a digest, which was dropped. `state` is the state of the message afterwards.
    Digest { key: Key, dropped: Dropped, state: MessageState },
    /// The message is a single one.
    Single(Cancelled),
}

/// Returns the message.
///
/// # Errors
/// The outbox does not have the message, or the store cannot answer.
pub async fn find(store: &dyn Store, id: Uuid) -> Result<MessageRecord, MessageError> {
    store.message(id).await?.ok_or(MessageError::Unknown(id))
}

/// Sends a message again. A digest's message is sent again by reopening the digest.
///
/// # Errors
/// See [`MessageError`].
pub async fn retry(
    store: &dyn Store,
    commands: &Commands,
    id: Uuid,
    retry: Retry,
) -> Result<RetryAnswer, MessageError> {
    let message = find(store, id).await?;
    Ok(match message.origin {
        Origin::Digest(key) => {
            let Retry { order, may_duplicate } = retry;
            let reopened = commands.digest(&key).reopen(Reopen { order, digest_id: id, may_duplicate }).await?;
            RetryAnswer::Digest { key, reopened }
        }
        Origin::Single { key, .. } => RetryAnswer::Single(commands.message(&key, message.stream).retry(retry).await?),
    })
}

/// Stops sending a message. A digest's message ends by dropping the digest, together with the key's pending events.
///
/// # Errors
/// See [`MessageError`].
pub async fn cancel(
    store: &dyn Store,
    commands: &Commands,
    id: Uuid,
    order: Order,
) -> Result<CancelAnswer, MessageError> {
    let message = find(store, id).await?;
    let ended = message.closed().is_some();
    match message.origin {
        Origin::Digest(_) if ended => Err(MessageError::Ended { id, state: message.state }),
        Origin::Digest(key) => {
            let status = commands.digest(&key).status::<Status>().await?;
            if status.and_then(|status| status.delivering).is_none_or(|digest| digest.digest_id != id) {
                return Err(MessageError::NotInDelivery { id, key });
            }
            let dropped = commands.digest(&key).drop_pending(order).await?;
            Ok(CancelAnswer::Digest { key, dropped, state: state_after(store, id).await? })
        }
        Origin::Single { key, .. } => {
            Ok(CancelAnswer::Single(commands.message(&key, message.stream).cancel(order).await?))
        }
    }
}

/// Waits for the end of a dropped digest's message. An attempt past the dot still ends by itself.
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
