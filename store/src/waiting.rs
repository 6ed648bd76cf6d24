//! Keeps pending messages up to date: a message is rendered again after changes, until an attempt is past the
//! dot (rule 60).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::json as value;
use sqlx::{query, query_as};
use tidings_model::{
    Event, EventRepetition, Key, Retract,
    records::{
        AuditActor, AuditEntry, DigestState, MessageOrigin, OutboxMessage, RemovedEvents, RetractEffect, RetractReach,
    },
    window::{DigestOutcome, Window},
};
use uuid::Uuid;

use crate::{
    Result,
    digest::{MESSAGE, StoredMessage},
    events::RecordedRow,
    exclusion::covered_by_a_retract,
    ledger::retract_identity,
    names::{names, of_name},
    sql::{
        SqlStore, checked_number,
        columns::{column, row},
        dialect::Dialect,
        no_nul, to_json,
    },
};

pub const PAST_A_DOT: &str = "SELECT number FROM attempts WHERE message = $1 AND past_the_dot_at IS NOT NULL LIMIT 1";

/// The current bytes will never be sent; the next attempt must render new ones.
pub const OUTDATE_MESSAGE: &str =
    "UPDATE messages SET epoch = epoch + 1, outdated = TRUE WHERE id = $1 AND closed_at IS NULL RETURNING epoch";

/// `$2` envelope from, `$3` envelope to, `$4` subject, `$5` bytes, `$6` template, `$7` counted, `$8` hash of
/// its inputs, `$9` made, `$10` thread or empty, `$11` JSON array of the addresses it was rendered for
/// before.
pub const REPLACE_MESSAGE: &str = "
UPDATE messages SET envelope_from = $2, envelope_to = $3, subject = $4, bytes = $5, template = $6, counted = $7, made_from = $8,
    made_at = $9, outdated = FALSE, missing_since = NULL, former_envelopes = NULLIF($11, '[]'), epoch = epoch + 1,
    thread = NULLIF($10, ''), thread_at = CASE WHEN $10 <> '' THEN (SELECT opened_at FROM digests WHERE digest_id = $1) END
WHERE id = $1 AND closed_at IS NULL RETURNING epoch";

pub const NOTE_MISSING: &str = "UPDATE messages SET missing_since = NULLIF($2, 0) WHERE id = $1 AND closed_at IS NULL";

/// The key's digests, under any name, with a pending message and a retracted event.
pub const WAITING_RETRACTED: &str = concat!(
    "WITH",
    names!(),
    "
SELECT d.digest_id FROM names k CROSS JOIN digests d
WHERE ",
    of_name!("d", "$3"),
    " AND d.state = 'rendered'
  AND EXISTS (SELECT 1 FROM events WHERE ",
    covered_by_a_retract!("d.digest_id"),
    ")
ORDER BY d.digest_id"
);

/// A retract by entity ignores digests that ended longer ago.
const LONG_SENT: SignedDuration = SignedDuration::from_hours(24);

/// `$2` for a retract by entity, ignores digests that ended earlier. Returns the digests with covered events.
pub const REACHED: &str = "
WITH asked AS (
    SELECT CAST(value->>0 AS BIGINT) AS place, value->>1 AS tenant, value->>2 AS digest_type, value->>3 AS user_id,
           value->>4 AS event_id, value->>5 AS category, value->>6 AS entity_type, value->>7 AS entity_id,
           CAST(value->>8 AS BIGINT) AS until_at
    FROM {each}
), found AS (
    SELECT a.place, e.digest_id FROM asked a
    JOIN events e ON e.tenant = a.tenant AND e.digest_type = a.digest_type AND e.user_id = a.user_id AND e.event_id = a.event_id
    WHERE a.event_id <> '' AND e.returned_at IS NULL
    UNION
    SELECT a.place, d.digest_id FROM asked a
    JOIN digests d ON d.tenant = a.tenant AND d.digest_type = a.digest_type AND d.user_id = a.user_id
    WHERE a.event_id = '' AND (d.closed_at IS NULL OR d.closed_at >= $2)
      AND EXISTS (SELECT 1 FROM events e
                  WHERE e.digest_id = d.digest_id AND e.category = a.category AND e.entity_type = a.entity_type
                    AND e.entity_id = a.entity_id AND e.occurred_at <= a.until_at AND e.returned_at IS NULL)
)
SELECT f.place, d.digest_id, d.state, d.outcome, d.claimed_at,
       EXISTS (SELECT 1 FROM attempts t WHERE t.message = d.digest_id AND t.past_the_dot_at IS NOT NULL) AS past_the_dot
FROM found f JOIN digests d ON d.digest_id = f.digest_id";

impl<D: Dialect> SqlStore<D> {
    pub(crate) async fn withdraw_events(
        &self,
        window: &Window,
        off: &BTreeSet<String>,
        seen: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<Option<RemovedEvents>> {
        let mut tx = self.begin_write().await?;
        if !Self::lock_waiting(&mut tx, window.digest_id).await? {
            return Ok(None);
        }
        let withdrawn = Self::exclude_withdrawn(&mut tx, window, off, seen, now).await?;
        // The events are gone from the digest, but still in the bytes.
        let Some(epoch) = Self::outdate_message(&mut tx, window.digest_id, now).await? else { return Ok(None) };
        tx.commit().await?;
        Ok(Some(RemovedEvents { epoch, ..withdrawn }))
    }

    pub(crate) async fn remake_message(
        &self,
        message: &OutboxMessage,
        epoch: u64,
        why: &str,
        now: Timestamp,
    ) -> Result<Option<u64>> {
        let id = message.id.to_string();
        let mut tx = self.begin_write().await?;
        if !Self::lock_waiting(&mut tx, message.id).await? {
            return Ok(None);
        }
        let before = query(MESSAGE).bind(id.clone()).try_map(Self::to_record).fetch_optional(&mut *tx).await?;
        let before = before.filter(|before: &StoredMessage| before.epoch == epoch);
        let Some(StoredMessage { message: before, former_envelopes: mut former, .. }) = before else { return Ok(None) };
        if before.envelope_to != message.envelope_to {
            former.insert(before.envelope_to.clone());
        }
        Self::fence_attempt(&mut tx, &id, now).await?;
        let replace = query_as(REPLACE_MESSAGE)
            .bind(id)
            .bind(&message.envelope_from)
            .bind(&message.envelope_to)
            .bind(no_nul(&message.subject))
            .bind(&message.bytes)
            .bind(&message.template)
            .bind(message.counted)
            .bind(&message.made_from)
            .bind(message.made_at.as_millisecond())
            .bind(message.thread.map(|thread| thread.to_string()).unwrap_or_default())
            .bind(to_json(&former)?);
        let (epoch,): (i64,) = replace.fetch_one(&mut *tx).await?;
        if (&before.bytes, &before.envelope_to) != (&message.bytes, &message.envelope_to) {
            let entry =
                AuditEntry { at: now, actor: AuditActor::Tidings, action: "remake".to_owned(), why: why.to_owned() };
            match &message.origin {
                MessageOrigin::Digest(key) => Self::audit_change(&mut tx, key, Some(message.id), &entry).await?,
                MessageOrigin::Single { key, .. } => Self::audit_single(&mut tx, key, entry).await?,
            }
        }
        tx.commit().await?;
        Ok(Some(checked_number(epoch)?))
    }

    pub(crate) async fn note_missing(&self, message: Uuid, since: Option<Timestamp>) -> Result<()> {
        let note = query(NOTE_MISSING).bind(message.to_string()).bind(since.map_or(0, Timestamp::as_millisecond));
        note.execute(&mut *self.writer.acquire().await?).await?;
        Ok(())
    }

    pub(crate) async fn take_content(&self, key: &Key, event: &Event, now: Timestamp) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let found = Self::recorded_under(&mut tx, key, event).await?;
        let Some(row) = found.filter(|row| row.waits) else { return Ok(false) };
        let taken = Self::take_into_waiting(&mut tx, &row.key(&key.user), row.digest_id, event, now).await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Merges changed content for an event into its message, while it can still be rendered again. Returns
    /// `false` if the event is final, or the content is the same.
    pub(crate) async fn take_into_waiting(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Uuid,
        event: &Event,
        now: Timestamp,
    ) -> Result<bool> {
        if !Self::lock_waiting(&mut *connection, digest_id).await? {
            return Ok(false);
        }
        // Check again, now that the lock keeps others from moving the event.
        let replaces =
            |row: &RecordedRow| row.digest_id == digest_id && row.repetition(event) == EventRepetition::Replaces;
        if !Self::recorded_under(&mut *connection, key, event).await?.as_ref().is_some_and(replaces) {
            return Ok(false);
        }
        Self::merge_event(&mut *connection, key, event, now).await?;
        Self::outdate_message(connection, digest_id, now).await?;
        Ok(true)
    }

    /// Keeps attempts under way from passing the dot with a retracted event of this key.
    pub(crate) async fn outdate_retracted(connection: &mut D::Connection, key: &Key, now: Timestamp) -> Result<()> {
        let found = query(WAITING_RETRACTED).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        for digest_id in found.try_map(|row| column(&row, "digest_id")).fetch_all(&mut *connection).await? {
            if Self::lock_waiting(&mut *connection, digest_id).await? {
                Self::outdate_message(&mut *connection, digest_id, now).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn retract_reach(
        &self,
        retracts: &[(Key, Retract)],
        now: Timestamp,
    ) -> Result<Vec<RetractEffect>> {
        let asked: Vec<_> = retracts
            .iter()
            .enumerate()
            .map(|(place, (key, retract))| {
                let (of, until_at) = retract_identity(retract);
                value!([
                    place,
                    key.tenant,
                    key.digest_type,
                    key.user,
                    of.event_id,
                    of.category,
                    of.entity_type,
                    of.entity_id,
                    until_at,
                ])
            })
            .collect();
        let since = now.saturating_sub(LONG_SENT).unwrap_or(Timestamp::MIN);
        let mut connection = self.reader.acquire().await?;
        let statement = query_as(Self::expand_each(REACHED)).bind(to_json(&asked)?).bind(since.as_millisecond());
        let rows: Vec<ReachedRow> = statement.fetch_all(&mut *connection).await?;
        connection.release();
        let mut reached = vec![RetractEffect::PENDING; retracts.len()];
        for ReachedRow { place, digest_id, state, outcome, claimed_at, past_the_dot } in rows {
            let place = usize::try_from(place).ok().and_then(|place| reached.get_mut(place));
            let reach = RetractReach::from_digest(state, outcome, past_the_dot);
            if let Some(place) = place.filter(|_| reach != RetractReach::Pending) {
                *place = place.prefer_waiting(RetractEffect { reach, digest: Some((digest_id, claimed_at)) });
            }
        }
        Ok(reached)
    }

    /// Locks the message. Returns `true` if it can still be rendered again.
    async fn lock_waiting(connection: &mut D::Connection, digest_id: Uuid) -> Result<bool> {
        let locked = Self::lock_message(&mut *connection, digest_id).await?;
        Ok(locked.closed.is_none() && !Self::finds_row(connection, PAST_A_DOT, digest_id).await?)
    }

    /// Fences attempts and returns the new epoch, if there is an open message.
    async fn outdate_message(connection: &mut D::Connection, digest_id: Uuid, now: Timestamp) -> Result<Option<u64>> {
        let id = digest_id.to_string();
        Self::fence_attempt(&mut *connection, &id, now).await?;
        let epoch: Option<(i64,)> = query_as(OUTDATE_MESSAGE).bind(id).fetch_optional(connection).await?;
        epoch.map(|(epoch,)| checked_number(epoch)).transpose()
    }
}

row! {
pub struct ReachedRow {
    place: u64,
    digest_id: Uuid,
    state: DigestState,
    outcome: Option<DigestOutcome>,
    claimed_at: Option<Timestamp>,
    past_the_dot: bool,
}
}
