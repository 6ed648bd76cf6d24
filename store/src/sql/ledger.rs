//! The life of a digest in the ledger: opened by its first page of events, and closed.

use super::dialect::{Dialect, Variants};
use super::digest::{DIGEST, DIGESTS, DigestRow};
use super::ending::Adoption;
use super::{Sql, json, within_timeout};
use crate::{Ledger, Result};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use std::collections::BTreeMap;
use tidings_model::limits::BATCH_EVENTS;
use tidings_model::records::{Closing, DigestRecord, DigestState};
use tidings_model::step::{Ending, Returned, Window};
use tidings_model::{Event, Key, Retract};
use tracing::instrument;
use uuid::Uuid;

/// Tenant, digest type, user, `$4` JSON array of retracts, each once, `$5` now.
pub const PUT_RETRACTS: Variants = Variants {
sqlite: "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT $1, $2, $3, value->>'event_id', value->>'category', value->>'entity_type', value->>'entity_id', value->>'until_at', $5
FROM jsonb_each($4) WHERE TRUE
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE SET
    until_at = excluded.until_at, retracted_at = excluded.retracted_at WHERE retracts.until_at < excluded.until_at",
postgres: "
INSERT INTO retracts (tenant, digest_type, user_id, event_id, category, entity_type, entity_id, until_at, retracted_at)
SELECT $1, $2, $3, value->>'event_id', value->>'category', value->>'entity_type', value->>'entity_id', (value->>'until_at')::bigint, $5::bigint
FROM jsonb_array_elements($4::jsonb) WHERE TRUE
ON CONFLICT (tenant, digest_type, user_id, event_id, category, entity_type, entity_id) DO UPDATE SET
    until_at = excluded.until_at, retracted_at = excluded.retracted_at WHERE retracts.until_at < excluded.until_at",
};

#[async_trait]
impl<D: Dialect> Ledger for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(key = %key), err(level = "debug"))]
    async fn known_events(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>> {
        within_timeout(async {
            let recorded = Self::recorded(&mut *self.reader.acquire().await?, key, json(&event_ids)?).await?;
            let known = |id: &&String| {
                recorded.get(*id).is_some_and(|(digest, state)| *state == DigestState::Closed || Some(*digest) == open)
            };
            Ok(event_ids.iter().filter(known).cloned().collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %window.key, digest = %window.digest_id), err(level = "debug"))]
    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let mut digest = Self::collect(&mut tx, window, None, events, None, now).await?;
            digest.elsewhere.retain(|id| Some(*id) != delivering);
            Self::adopt_orphans(&mut tx, window, &digest, None, now).await?;
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
            Ok(tx.commit().await?)
        })
        .await
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
    pub until_at: i64,
}

/// The columns of the other kind are empty.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RetractIdentity<'a> {
    pub event_id: &'a str,
    pub category: &'a str,
    pub entity_type: &'a str,
    pub entity_id: &'a str,
}

/// The identity of a retract, and its end in milliseconds. A retract of an event id has no end.
fn identity(retract: &Retract) -> (RetractIdentity<'_>, i64) {
    match retract {
        Retract::Event(event_id) => {
            (RetractIdentity { event_id, ..RetractIdentity::default() }, Timestamp::MAX.as_millisecond())
        }
        Retract::Entity { category, entity_type, entity_id, until } => {
            (RetractIdentity { event_id: "", category, entity_type, entity_id }, until.as_millisecond())
        }
    }
}
