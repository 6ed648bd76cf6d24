//! The real mailer as the send activity uses it.

use anyhow::Result;
use jiff::Timestamp;
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition},
    smtp::{AttemptOutcome, PoolLimits, ReadyTransaction, SendLane, SmtpMailer, SmtpTimeouts},
};
use uuid::Uuid;

/// The sender of all emails of these tests.
pub const FROM: &str = "digest@mail.example.com";

/// A mailer with default limits and timeouts.
///
/// # Errors
/// When the URL does not name a relay.
pub fn mailer(url: &str) -> Result<SmtpMailer> {
    mailer_with(url, PoolLimits::default(), SmtpTimeouts::default())
}

/// A mailer with these limits and timeouts.
///
/// # Errors
/// When the URL does not name a relay.
pub fn mailer_with(url: &str, limits: PoolLimits, timeouts: SmtpTimeouts) -> Result<SmtpMailer> {
    Ok(SmtpMailer::new(url.parse()?, limits, timeouts)?)
}

/// Offers a message as soon as there is a slot for it.
///
/// # Panics
/// When the mailer is closed.
///
/// # Errors
/// The outcome of the attempt.
pub async fn offer(mailer: &SmtpMailer, to: &str, bytes: &[u8]) -> Result<ReadyTransaction, AttemptOutcome> {
    mailer.acquire_slot(SendLane::Transactional, to).await.expect("the mailer is open").offer(FROM, to, bytes).await
}

/// Makes one attempt, which counts as recorded in time.
pub async fn deliver(mailer: &SmtpMailer, to: &str) -> AttemptOutcome {
    match offer(mailer, to, &bytes("Three new comments")).await {
        Ok(ready) => ready.send_dot().await,
        Err(delivery) => delivery,
    }
}

/// An email of a digest with this text.
///
/// # Panics
/// Never, because all parts are valid.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let draft = MessageDraft {
        from: MessageParty { name: "Acme", address: &FROM.parse().expect("an address") },
        to: MessageParty { name: "Ann", address: &"ann@example.net".parse().expect("an address") },
        reply_to: None,
        subject: "3 new comments",
        html: Some("<p>Three new comments</p>"),
        text,
        id: Uuid::from_u128(1),
        of: MessageKind::Digest {
            tenant: "acme",
            digest_type: "activity",
            events: 3,
            list_host: "lists.example.com",
            threading: ThreadPosition::Alone,
        },
        date: Timestamp::UNIX_EPOCH,
        message_domain: "mail.example.com",
        unsubscribe: None,
        token: None,
        attachments: &[],
    };
    draft.compose().expect("a sound draft").bytes
}
