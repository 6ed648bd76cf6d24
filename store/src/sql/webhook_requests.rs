//! Requests of webhooks: each is one transaction, however many events it has.

use super::dialect::Dialect;
use super::reports::LOCK_ADDRESS;
use super::{Sql, no_nul};
use crate::Result;
use crate::address::folded;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, query, query_as};
use std::collections::BTreeSet;
use std::time::Duration;
use tidings_model::delivery_events::{OneTimeToken, RequestRecorded, Unusable, WebhookRequest};
use uuid::Uuid;

/// Time for which tokens are kept. No provider's token is accepted 12 hours before or after the time that it names.
const TOKEN_KEPT: Duration = Duration::from_hours(25);

/// Relay, token, SHA-256 of the body, now. Answers with the SHA-256 of the first body, and keeps the row for the transaction.
pub const PUT_TOKEN: &str = "
INSERT INTO webhook_tokens (relay, token, body_sha256, received_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (relay, token) DO UPDATE SET relay = excluded.relay
RETURNING body_sha256";

/// `{locked}` ends the query. A few at a time: each request that brings a token deletes more than one.
pub const DELETE_OLD_TOKENS: &str = "
DELETE FROM webhook_tokens WHERE (relay, token) IN
    (SELECT relay, token FROM webhook_tokens WHERE received_at < $1 ORDER BY received_at LIMIT 10{locked})";

pub const PUT_WEBHOOK_LETTER: &str = "
INSERT INTO webhook_dead_letters (relay, sha256, reason, size, head, buried_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING";

impl<D: Dialect> Sql<D> {
    pub(super) async fn record_request(
        tx: &mut D::Connection,
        request: &WebhookRequest,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<RequestRecorded> {
        if let Some(token) = &request.token
            && !Self::put_token(&mut *tx, &request.relay, token, now).await?
        {
            return Ok(RequestRecorded::TokenOfAnotherBody);
        }
        let mut messages = Vec::with_capacity(request.events.len());
        for event in &request.events {
            messages.push(Self::find_reported(&mut *tx, event).await?);
        }
        Self::lock_all(&mut *tx, &messages).await?;
        let mut recorded = Vec::with_capacity(messages.len());
        for (event, message) in request.events.iter().zip(messages) {
            recorded.push(match message {
                Some(message) => Some(Self::record_event(&mut *tx, message, event, soft_bounces, now).await?),
                None => None,
            });
        }
        Self::bury(tx, request, now).await?;
        Ok(RequestRecorded::Events(recorded))
    }

    /// Answers `false` if the token came with another body.
    async fn put_token(tx: &mut D::Connection, relay: &str, token: &OneTimeToken, now: Timestamp) -> Result<bool> {
        let put = query_as(PUT_TOKEN).bind(relay.to_owned()).bind(token.token.clone());
        let put = put.bind(token.body_sha256.clone()).bind(now.as_millisecond());
        let (first,): (String,) = put.fetch_one(&mut *tx).await?;
        let old = now.saturating_sub(TOKEN_KEPT).unwrap_or(Timestamp::MIN);
        let delete = AssertSqlSafe(DELETE_OLD_TOKENS.replace("{locked}", D::SKIP_LOCKED));
        query(delete).bind(old.as_millisecond()).execute(tx).await?;
        Ok(first == token.body_sha256)
    }

    /// Locks the messages, and then their addresses, each in one order: two requests about the same messages would otherwise wait
    /// for each other. A request about one message locks as it goes.
    async fn lock_all(tx: &mut D::Connection, messages: &[Option<Uuid>]) -> Result<()> {
        let messages: BTreeSet<Uuid> = messages.iter().copied().flatten().collect();
        if messages.len() < 2 {
            return Ok(());
        }
        let mut addresses = BTreeSet::new();
        for message in messages {
            Self::lock_message(&mut *tx, message).await?;
            let message = Self::reported_message(&mut *tx, message).await?;
            addresses.insert((message.origin.tenant().to_owned(), folded(&message.envelope_to)));
        }
        for (tenant, address) in addresses {
            query(D::pick(LOCK_ADDRESS)).bind(tenant).bind(address).execute(&mut *tx).await?;
        }
        Ok(())
    }

    /// In the order of the keys, as all requests do.
    async fn bury(tx: &mut D::Connection, request: &WebhookRequest, now: Timestamp) -> Result<()> {
        let mut letters: Vec<&Unusable> = request.unusable.iter().collect();
        letters.sort_unstable_by(|a, b| a.sha256.cmp(&b.sha256));
        for Unusable { reason, size, sha256, head } in letters {
            let put = query(PUT_WEBHOOK_LETTER).bind(request.relay.clone()).bind(sha256.clone()).bind(no_nul(reason));
            let put = put.bind(i64::try_from(*size).unwrap_or(i64::MAX)).bind(no_nul(head)).bind(now.as_millisecond());
            put.execute(&mut *tx).await?;
        }
        Ok(())
    }
}
