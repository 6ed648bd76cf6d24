//! The life of a digest in the ledger: opened by its first page of events, and closed.

use super::dialect::{Dialect, Variants};
use super::digest::{DIGEST, DIGESTS, DigestRow};
use super::ending::Adoption;
use super::events::{RECORDED_EVENTS, RecordedRow};
use super::names::names;
use super::{Sql, json, within_timeout};
use crate::{Ledger, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use std::collections::BTreeMap;
use tidings_model::limits::BATCH_EVENTS;
use tidings_model::records::{Closing, DigestRecord, DigestState, KnownEvents, Reached};
use tidings_model::step::{Ending, Returned, Window};
use tidings_model::{Content, Event, Key, Repetition, Retract};
use tracing::instrument;
use uuid::Uuid;

macro_rules! put_retracts {
    ($until_at:literal, $retracts:literal) => {
        concat!(
            "WITH",
            names!(),
            "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT k.tenant, k.digest_type, $3, r.value->>'event_id', r.value->>'category', r.value->>'entity_type', r.value->>'entity_id',
       ",
            $until_at,
            "
FROM names k CROSS JOIN ",
            $retracts,
            " r
LEFT JOIN events e ON e.tenant = k.tenant AND e.digest_type = k.digest_type AND e.user_id = $3
    AND e.event_id = r.value->>'event_id'
WHERE TRUE
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE SET
    until_at = excluded.until_at, retracted_at = excluded.retracted_at
WHERE CASE WHEN retracts.event_id <> '' AND retracts.until_at = 253402207200999 THEN retracts.retracted_at ELSE retracts.until_at END
      < excluded.until_at"
        )
    };
}

/// Tenant, digest type, user, `$4` JSON array of retracts, each once, `$5` the time at which they were read. A retract of an id covers what
/// the ledger has of the id, but nothing after the retract's own time; of an id that it does not have, what occurred until that time, or
/// else until `$5`. A retract is in the ledger under each name of the key, because the event may be in a window of any of them.
pub const PUT_RETRACTS: Variants = Variants {
    sqlite: put_retracts!(
        "COALESCE(MIN(r.value->>'until_at', e.occurred_at), r.value->>'until_at', e.occurred_at, $5), $5",
        "jsonb_each($4)"
    ),
    postgres: put_retracts!(
        "COALESCE(LEAST((r.value->>'until_at')::bigint, e.occurred_at), $5::bigint), $5::bigint",
        "jsonb_array_elements($4::jsonb)"
    ),
};

#[async_trait]
impl<D: Dialect> Ledger for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn known_events(
        &self,
        key: &Key,
        event_ids: &[String],
        contents: &[Content],
        open: Option<Uuid>,
    ) -> Result<KnownEvents> {
        within_timeout(async {
            let statement = query_as(D::pick(RECORDED_EVENTS)).bind(&key.tenant).bind(&key.digest_type);
            let statement = statement.bind(&key.user).bind(json(&event_ids)?);
            let rows: Vec<RecordedRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
            // What another name's digest has and ended counts over what waits here.
            let recorded: BTreeMap<_, _> = rows.into_iter().map(|row| (row.event_id.clone(), row)).collect();
            let mut known = KnownEvents::default();
            for (index, id) in event_ids.iter().enumerate() {
                let of_an_end = |row: &&RecordedRow| row.state == DigestState::Closed || Some(row.digest_id) == open;
                let Some(row) = recorded.get(id).filter(of_an_end) else { continue };
                let content = contents.get(index);
                match content.map_or(Repetition::Same, |content| row.content().repetition(content)) {
                    Repetition::Replaces | Repetition::New => continue,
                    Repetition::Refused => known.refused.extend(content.map(|content| (id.clone(), content.clone()))),
                    Repetition::Same => {}
                }
                known.event_ids.push(id.clone());
            }
            Ok(known)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key, events = refused.len()), err(level = "debug"))]
    async fn refuse_contents(&self, key: &Key, refused: &[(String, Content)], now: Timestamp) -> Result<()> {
        within_timeout(async {
            let mut tx = self.write().await?;
            Self::refuse(&mut tx, key, refused, now).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(events = events.len()), err(level = "debug"))]
    async fn repetitions(&self, events: &[(Key, String, Content)]) -> Result<Vec<Option<Repetition>>> {
        within_timeout(self.read_repetitions(events)).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %window.key, digest = %window.digest_id), err(level = "debug"))]
    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let mut digest = Self::collect(&mut tx, window, None, events, None, now).await?;
            digest.elsewhere.retain(|id| Some(*id) != delivering);
            Self::adopt_orphans(&mut tx, window, &digest, None, now).await?;
            Self::refuse(&mut tx, &window.key, &digest.refused, now).await?;
            tx.commit().await?;
            Ok(digest.taken)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        within_timeout(async {
            // One statement cannot change a row twice.
            let mut last = BTreeMap::new();
            for (identity, until_at) in retracts.iter().map(identity) {
                let until = last.entry(identity).or_insert(until_at);
                *until = (*until).max(until_at);
            }
            let rows: Vec<_> = last.into_iter().map(|(identity, until_at)| RetractRow { identity, until_at }).collect();
            let mut tx = self.write().await?;
            for page in rows.chunks(BATCH_EVENTS) {
                let statement = query(D::pick(PUT_RETRACTS)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
                statement.bind(json(&page)?).bind(now.as_millisecond()).execute(&mut *tx).await?;
            }
            Self::outdate_retracted(&mut tx, key, now).await?;
            Ok(tx.commit().await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(count = retracts.len()), err(level = "debug"))]
    async fn reach(&self, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<Reached>> {
        within_timeout(self.read_reached(retracts, now)).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %closing.window.key, digest = %closing.window.digest_id), err(level = "debug"))]
    async fn close(&self, closing: Closing<'_>) -> Result<Ending> {
        within_timeout(async { self.close_window(closing, Adoption::All).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %closing.window.key, digest = %closing.window.digest_id), err(level = "debug"))]
    async fn exclude(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending> {
        within_timeout(async { self.close_window(closing, Adoption::TheseExceptFrom(delivering)).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn returned(&self, key: &Key) -> Result<Option<Returned>> {
        within_timeout(self.read_returned(key)).await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn returned_event(&self, key: &Key) -> Result<Option<Event>> {
        within_timeout(self.read_returned_event(key)).await
    }

    #[instrument(level = "debug", skip_all, fields(digest = %digest_id), err(level = "debug"))]
    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        within_timeout(async {
            let row: Option<DigestRow> =
                query_as(DIGEST).bind(digest_id.to_string()).fetch_optional(&mut *self.reader.acquire().await?).await?;
            Ok(row.map(DigestRecord::from))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>> {
        within_timeout(async {
            let statement = query_as(DIGESTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            let found: Vec<DigestRow> =
                statement.bind(i64::from(limit)).fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(found.into_iter().map(DigestRecord::from).collect())
        })
        .await
    }
}

/// A retract as the statements take it.
#[derive(Serialize)]
pub struct RetractRow<'a> {
    #[serde(flatten)]
    pub identity: RetractIdentity<'a>,
    /// `None`: the ledger decides.
    pub until_at: Option<i64>,
}

/// The columns of the other kind are empty.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RetractIdentity<'a> {
    pub event_id: &'a str,
    pub category: &'a str,
    pub entity_type: &'a str,
    pub entity_id: &'a str,
}

/// The identity of a retract, and its end in milliseconds, if it says one.
pub(super) fn identity(retract: &Retract) -> (RetractIdentity<'_>, Option<i64>) {
    match retract {
        Retract::Event(event_id) => (RetractIdentity { event_id, ..RetractIdentity::default() }, None),
        Retract::EventUntil { event_id, until } => {
            (RetractIdentity { event_id, ..RetractIdentity::default() }, Some(until.as_millisecond()))
        }
        Retract::Entity { category, entity_type, entity_id, until } => {
            (RetractIdentity { event_id: "", category, entity_type, entity_id }, Some(until.as_millisecond()))
        }
    }
}
