//! Webhook requests: one transaction each, however many events.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use sqlx::{AssertSqlSafe, query, query_as};
use tidings_model::{
    delivery_events::{
        CheckedDeliveryEvent, EventEffect, EventRejection, LetterEmitted, OneTimeToken, RequestRecorded, UnusablePart,
        WebhookRequest,
    },
    records::{
        AuditEntry, KeptWebhookLetter, ListPage, MessageOrigin, PageCursor, WebhookLetterFilter, WebhookLetterId,
        WebhookLetterPlace, WebhookLetterRecord,
    },
};
use uuid::Uuid;

use crate::{
    Result,
    audit::read_emitted,
    sql::{
        SqlStore,
        columns::{column, record},
        dialect::Dialect,
        no_nul, to_json,
    },
};

/// No provider's token is accepted 12 hours before or after the time it states.
const TOKEN_KEPT: Duration = Duration::from_hours(25);

/// Relay, token, SHA-256 of the body, now. Returns the first body's SHA-256, and locks the row.
pub const PUT_TOKEN: &str = "
INSERT INTO webhook_tokens (relay, token, body_sha256, received_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (relay, token) DO UPDATE SET relay = excluded.relay
RETURNING body_sha256";

/// `{locked}` ends the query. Deletes a few at a time; this keeps up, as each request adds only one.
pub const DELETE_OLD_TOKENS: &str = "
DELETE FROM webhook_tokens WHERE (relay, token) IN
    (SELECT relay, token FROM webhook_tokens WHERE received_at < $1 ORDER BY received_at LIMIT 10{locked})";

pub const PUT_WEBHOOK_LETTER: &str = "
INSERT INTO webhook_dead_letters (relay, sha256, reason, size, head, buried_at, whole)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";

pub const PUT_LETTER_IDS: &str = "
INSERT INTO webhook_letter_ids (id, relay, sha256) SELECT value->>0, $2, $3 FROM {each}";

pub const MARK_EMITTED: &str = "
UPDATE webhook_dead_letters SET emitted_at = $3, emitted_by = $4
WHERE relay = $1 AND sha256 = $2 AND emitted_at IS NULL";

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn record_request(
        tx: &mut D::Connection,
        request: &WebhookRequest,
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<RequestRecorded> {
        if let Some(token) = &request.token
            && !Self::put_one_time_token(&mut *tx, &request.relay, token, now).await?
        {
            return Ok(RequestRecorded::TokenOfAnotherBody);
        }
        let recorded = Self::record_events(&mut *tx, &request.events, soft_bounces, now).await?;
        Self::bury_unusable(tx, request, now).await?;
        Ok(RequestRecorded::Events(recorded))
    }

    async fn record_events(
        tx: &mut D::Connection,
        events: &[CheckedDeliveryEvent],
        soft_bounces: u32,
        now: Timestamp,
    ) -> Result<Vec<std::result::Result<EventEffect, EventRejection>>> {
        let mut messages = Vec::with_capacity(events.len());
        for event in events {
            messages.push(Self::find_reported(&mut *tx, event).await?);
        }
        let held = Self::lock_reported(&mut *tx, &messages.iter().flatten().copied().collect()).await?;
        let mut about = BTreeMap::<Uuid, Vec<usize>>::new();
        for (at, message) in messages.iter().enumerate() {
            if let Ok(message) = message {
                about.entry(*message).or_default().push(at);
            }
        }
        let mut recorded = BTreeMap::new();
        for (message, places) in about {
            let about: Vec<_> = places.iter().map(|at| &events[*at]).collect();
            let about = Self::record_about(&mut *tx, &held[&message], &about, soft_bounces, now).await?;
            recorded.extend(places.into_iter().zip(about));
        }
        let answer = |(at, message)| match message {
            Ok(_) => recorded.remove(&at).map(Ok),
            Err(unrecorded) => Some(Err(unrecorded)),
        };
        Ok(messages.into_iter().enumerate().filter_map(answer).collect())
    }

    /// Records the events first, because every transaction should lock messages before letters. Only commit
    /// if this returns [`LetterEmitted::Now`].
    pub(crate) async fn emit_letter(
        tx: &mut D::Connection,
        id: &WebhookLetterId,
        events: &[CheckedDeliveryEvent],
        soft_bounces: u32,
        entry: &AuditEntry,
    ) -> Result<LetterEmitted> {
        let recorded = Self::record_events(&mut *tx, events, soft_bounces, entry.at).await?;
        let Some(letter) = Self::webhook_letter_record(&mut *tx, id).await? else { return Ok(LetterEmitted::Unknown) };
        let mark = query(MARK_EMITTED).bind(letter.relay).bind(letter.sha256).bind(entry.at.as_millisecond());
        if D::changed_rows(&mark.bind(no_nul(entry.actor.as_str())).execute(&mut *tx).await?) == 0 {
            let letter = Self::webhook_letter_record(tx, id).await?;
            return Ok(letter.and_then(|letter| letter.emitted).map_or(LetterEmitted::Unknown, LetterEmitted::Before));
        }
        let messages: BTreeSet<Uuid> = recorded.iter().flatten().map(|recorded| recorded.message).collect();
        if messages.is_empty() {
            Self::audit_tenant(&mut *tx, "", entry).await?;
        }
        for message in messages {
            match Self::reported_message(&mut *tx, message).await?.origin {
                MessageOrigin::Digest(key) => Self::audit_change(&mut *tx, &key, Some(message), entry).await?,
                MessageOrigin::Single { key, .. } => Self::audit_single(&mut *tx, &key, entry.clone()).await?,
            }
        }
        Ok(LetterEmitted::Now(recorded))
    }

    /// Returns `false` if the token was used with another body.
    async fn put_one_time_token(
        tx: &mut D::Connection,
        relay: &str,
        token: &OneTimeToken,
        now: Timestamp,
    ) -> Result<bool> {
        let put = query_as(PUT_TOKEN).bind(relay.to_owned()).bind(token.token.clone());
        let put = put.bind(token.body_sha256.clone()).bind(now.as_millisecond());
        let (first,): (String,) = put.fetch_one(&mut *tx).await?;
        let old = now.saturating_sub(TOKEN_KEPT).unwrap_or(Timestamp::MIN);
        let delete = AssertSqlSafe(DELETE_OLD_TOKENS.replace("{locked}", D::SKIP_LOCKED));
        query(delete).bind(old.as_millisecond()).execute(tx).await?;
        Ok(first == token.body_sha256)
    }

    /// Sorted by key in all requests, so two cannot deadlock.
    async fn bury_unusable(tx: &mut D::Connection, request: &WebhookRequest, now: Timestamp) -> Result<()> {
        let mut letters: Vec<&UnusablePart> = request.unusable.iter().collect();
        letters.sort_unstable_by(|a, b| a.sha256.cmp(&b.sha256));
        for UnusablePart { reason, size, sha256, head, whole, ids } in letters {
            let put = query(PUT_WEBHOOK_LETTER).bind(request.relay.clone()).bind(sha256.clone()).bind(no_nul(reason));
            let put = put.bind(i64::try_from(*size).unwrap_or(i64::MAX)).bind(no_nul(head)).bind(now.as_millisecond());
            let put = put.bind(*whole).execute(&mut *tx).await?;
            if D::changed_rows(&put) > 0 && !ids.is_empty() {
                let ids: Vec<_> = ids.iter().map(|id| [id.to_string()]).collect();
                let put = query(Self::expand_each(PUT_LETTER_IDS)).bind(to_json(&ids)?).bind(request.relay.clone());
                put.bind(sha256.clone()).execute(&mut *tx).await?;
            }
        }
        Ok(())
    }
}

macro_rules! webhook_letter_columns {
    () => {
        "SELECT relay, sha256, reason, size, buried_at, whole, emitted_at, emitted_by FROM webhook_dead_letters "
    };
}

pub const WEBHOOK_LETTERS: &str = concat!(
    webhook_letter_columns!(),
    "WHERE buried_at >= $1 AND buried_at < $2 AND (buried_at, relay, sha256) < ($3, $4, $5)
     ORDER BY buried_at DESC, relay DESC, sha256 DESC LIMIT $6"
);

const WEBHOOK_LETTER: &str =
    concat!(webhook_letter_columns!(), "WHERE relay = $1 AND sha256 >= $2 AND sha256 < $3 ORDER BY sha256 LIMIT 1");

const WEBHOOK_HEAD: &str = "SELECT head FROM webhook_dead_letters WHERE relay = $1 AND sha256 = $2";

impl<D: Dialect> SqlStore<D> {
    pub(super) async fn webhook_letters(
        &self,
        filter: &WebhookLetterFilter,
    ) -> Result<ListPage<WebhookLetterRecord, WebhookLetterPlace>> {
        let WebhookLetterFilter { since, until, page } = filter;
        let after = page.after.as_ref().map(|PageCursor((at, relay, sha256))| (at.as_millisecond(), relay, sha256));
        let (after_at, after_relay, after_sha256) = after.map_or_else(
            || (i64::MAX, String::new(), String::new()),
            |(at, relay, sha256)| (at, relay.clone(), sha256.clone()),
        );
        let rows = query(WEBHOOK_LETTERS)
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_relay)
            .bind(after_sha256)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page
            .build_page(rows, |last: &WebhookLetterRecord| (last.buried_at, last.relay.clone(), last.sha256.clone())))
    }

    pub(super) async fn webhook_letter(&self, id: &WebhookLetterId) -> Result<Option<KeptWebhookLetter>> {
        let mut connection = self.reader.acquire().await?;
        let Some(record) = Self::webhook_letter_record(&mut *connection, id).await? else { return Ok(None) };
        let head = query_as(WEBHOOK_HEAD)
            .bind(record.relay.clone())
            .bind(record.sha256.clone())
            .fetch_optional(&mut *connection);
        let head: Option<(String,)> = head.await?;
        Ok(head.map(|(head,)| KeptWebhookLetter { record, head }))
    }

    pub(crate) async fn webhook_letter_record(
        connection: &mut D::Connection,
        WebhookLetterId { relay, digits }: &WebhookLetterId,
    ) -> Result<Option<WebhookLetterRecord>> {
        let one = query(WEBHOOK_LETTER).bind(relay.clone()).bind(digits.clone()).bind(format!("{digits}g"));
        Ok(one.try_map(Self::to_record).fetch_optional(connection).await?)
    }
}

record!(row => WebhookLetterRecord {
    id: WebhookLetterId::new(&column::<_, String>(row, "relay")?, &column::<_, String>(row, "sha256")?),
    relay,
    buried_at,
    reason,
    size,
    sha256,
    whole,
    emitted: read_emitted::<D>(row)?,
});
