//! The real mailer as the send activity uses it.

use anyhow::Result;
use jiff::Timestamp;
use tidings_mail::{
    mime::{Draft, MessageKind, Party, Threading},
    smtp::{AttemptOutcome, Lane, Limits, Mailer, Ready, Timeouts},
};
use uuid::Uuid;

/// The sender of all emails of these tests.
pub const FROM: &str = "digest@mail.example.com";

/// A mailer with default limits and timeouts.
///
/// # Errors
/// When the URL does not name a relay.
pub fn mailer(url: &str) -> Result<Mailer> {
    mailer_with(url, Limits::default(), Timeouts::default())
}

/// A mailer with these limits and timeouts.
///
/// # Errors
/// When the URL does not name a relay.
pub fn mailer_with(url: &str, limits: Limits, timeouts: Timeouts) -> Result<Mailer> {
    Ok(Mailer::new(url.parse()?, limits, timeouts)?)
}

/// Offers a message as soon as there is a slot for it.
///
/// # Panics
/// When the mailer is closed.
///
/// # Errors
/// The outcome of the attempt.
pub async fn offer(mailer: &Mailer, to: &str, bytes: &[u8]) -> Result<Ready, AttemptOutcome> {
    mailer.slot(Lane::Transactional, to).await.expect("the mailer is open").offer(FROM, to, bytes).await
}

/// Makes one attempt, which counts as recorded in time.
pub async fn deliver(mailer: &Mailer, to: &str) -> AttemptOutcome {
    match offer(mailer, to, &bytes("Three new comments")).await {
        Ok(ready) => ready.dot().await,
        Err(delivery) => delivery,
    }
}

/// An email of a digest with this text.
///
/// # Panics
/// Never, because all parts are valid.
#[must_use]
pub fn bytes(text: &str) -> Vec<u8> {
    let draft = Draft {
        from: Party { name: "Acme", address: &FROM.parse().expect("an address") },
        to: Party { name: "Ann", address: &"ann@example.net".parse().expect("an address") },
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
            threading: Threading::Alone,
        },
        date: Timestamp::UNIX_EPOCH,
        message_domain: "mail.example.com",
        unsubscribe: None,
        token: None,
        attachments: &[],
    };
    draft.compose().expect("a sound draft").bytes
}
