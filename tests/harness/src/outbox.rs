//! Messages that are in the outbox without a workflow.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use jiff::Timestamp;
use tidings_model::{
    MessageKey,
    attempt::{AttemptClass, AttemptPhase},
    records::{AttemptEnd, AttemptStart, MessageOrigin, OutboxMessage},
    settings::StreamName,
    window::{DigestOutcome, WindowEnd},
};
use tidings_store::Store;
use uuid::Uuid;

/// Stores a single message of the tenant `acme` to `KEY@example.com`, which the relay `own` took.
///
/// # Errors
/// When the store does not answer.
pub async fn taken_message(store: &dyn Store, key: &str) -> Result<Uuid> {
    let to = format!("{key}@example.com");
    let key = MessageKey::new("acme".to_owned(), key.to_owned())?;
    let (id, now) = (key.message_id(), Timestamp::now());
    let message = OutboxMessage {
        id,
        origin: MessageOrigin::Single { key, user: None, content_sha256: "0".repeat(64) },
        stream: StreamName::Bulk,
        envelope_from: "digest@acme.example".to_owned(),
        envelope_to: to,
        message_id: format!("{id}@acme.example"),
        subject: "welcome".to_owned(),
        bytes: b"welcome".to_vec(),
        template: String::new(),
        counted: false,
        made_from: String::new(),
        thread: None,
        made_at: now,
    };
    store.put_message(&message, None).await?;
    let AttemptStart::Proceed { number, .. } = store.begin_attempt(id, "own", Duration::ZERO, now).await? else {
        bail!("the message is closed")
    };
    ensure!(store.mark_in_doubt(id, number, now).await?, "the attempt is fenced");
    let end = AttemptEnd {
        phase: AttemptPhase::Done,
        class: AttemptClass::Sent,
        reply: "250 ok".to_owned(),
        relay_id: None,
        closed: Some(WindowEnd { outcome: DigestOutcome::Sent, why: String::new() }),
        suppress: None,
        consecutive: 1,
        return_events: false,
    };
    store.end_attempt(id, number, &end, now).await?;
    Ok(id)
}
