//! The gateway's inbox. Arrivals only insert rows, without locks, so they never wait for a forwarder.
//!
//! Note that another process may commit a lower id after a higher one, so we mark rows one by one and never
//! "up to" an id.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json as value};
use sqlx::{Connection, query, query_as};
use tidings_model::{
    Key, StoredWait,
    inbox::{InboxDepth, InboxItem, KeyLease, PendingItem, QueuedKey},
};
use uuid::Uuid;

use crate::{
    Result,
    sql::{
        SqlStore, calls,
        columns::{record, row},
        dialect::Dialect,
        group_commit::{InboxArrival, QueuedRecord as Call},
        or_zero, to_json, within_timeout,
    },
};

calls! {
    pub trait InboxStore {
        /// Adds the items in order, and returns once they are durable. One commit covers all waiting calls.
        /// Safe to repeat, because events are deduplicated by id.
        #[span(items = items.len())]
        async fn receive_items(&self, items: Arc<[InboxItem]>, now: Timestamp) -> Result<()>;

        /// At most `limit` keys with pending items, sorted by workflow id, after this one.
        async fn waiting_keys(&self, after: &str, limit: u32) -> Result<Vec<QueuedKey>>;

        /// Leases the keys still free, under the new id `holder`; returns these.
        #[span(keys = keys.len())]
        async fn lease_keys(&self, holder: Uuid, keys: &[Key], now: Timestamp) -> Result<Vec<(Key, KeyLease)>>;

        #[span(key = %key)]
        async fn pending_items(&self, key: &Key, limit: u32) -> Result<Vec<PendingItem>>;

        /// Marks items as forwarded and replaces the lease, if `holder` still has it. Without items, only
        /// replaces the lease.
        #[span(key = %key)]
        async fn mark_forwarded(&self, holder: Uuid, key: &Key, items: &[i64], lease: KeyLease, now: Timestamp) -> Result<()>;

        async fn inbox_depth(&self) -> Result<InboxDepth>;

        /// Ends all leases, and requeues items which arrived at `since` or later and were forwarded before
        /// `now`. Returns how many.
        #[span(tenant)]
        #[limit(each_step)]
        async fn replay_inbox(&self, tenant: Option<&str>, since: Timestamp, now: Timestamp) -> Result<u64>;

        async fn forget_leases(&self, now: Timestamp) -> Result<()>;
    }
}

const STATEMENT_BYTES: usize = 1 << 20;
const REPLAY_ROWS: i64 = 5_000;
/// How long we keep a free lease: longer than any backoff.
const LEASE_KEPT: SignedDuration = SignedDuration::from_mins(1);

pub const RECEIVE: &str = "
INSERT INTO inbox (workflow_id, tenant, user_id, kind, json, bytes, received_at)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, CAST(value->>5 AS BIGINT), $2 FROM {each}";

/// Finds each next key by index, however many items a key has.
pub const WAITING_KEYS: &str = "
WITH RECURSIVE k(workflow_id, n) AS (
    SELECT (SELECT i.workflow_id FROM inbox i WHERE i.forwarded_at IS NULL AND i.workflow_id > $1
            ORDER BY i.workflow_id LIMIT 1), 1
    UNION ALL
    SELECT (SELECT i.workflow_id FROM inbox i WHERE i.forwarded_at IS NULL AND i.workflow_id > k.workflow_id
            ORDER BY i.workflow_id LIMIT 1), k.n + 1
    FROM k WHERE k.workflow_id IS NOT NULL AND k.n < $2
)
SELECT k.workflow_id, l.free_at, l.failures FROM k LEFT JOIN inbox_leases l ON l.workflow_id = k.workflow_id
WHERE k.workflow_id IS NOT NULL ORDER BY k.workflow_id";

pub const LEASE: &str = "
INSERT INTO inbox_leases (workflow_id, holder, free_at, failures) SELECT value->>0, $2, $3, 0 FROM {each} WHERE TRUE
ON CONFLICT (workflow_id) DO UPDATE SET holder = excluded.holder, free_at = excluded.free_at
WHERE inbox_leases.free_at <= $4 OR inbox_leases.free_at > $5
RETURNING workflow_id, free_at, failures";

pub const WAITING: &str =
    "SELECT id, kind, json FROM inbox WHERE workflow_id = $1 AND forwarded_at IS NULL ORDER BY id LIMIT $2";

/// Requires the lease: after a replay it is gone, and the items may have gone to a Temporal server which lost
/// them.
pub const FORWARDED: &str = "
UPDATE inbox SET forwarded_at = $2 WHERE id IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})
  AND EXISTS (SELECT 1 FROM inbox_leases l WHERE l.workflow_id = $3 AND l.holder = $4)";

pub const REPLACE_LEASE: &str =
    "UPDATE inbox_leases SET free_at = $3, failures = $4 WHERE workflow_id = $1 AND holder = $2";

pub const DEPTH: &str = "
SELECT COUNT(*) AS events, CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes, MIN(received_at) AS oldest
FROM inbox WHERE forwarded_at IS NULL";

pub const REPLAY: &str = "
UPDATE inbox SET forwarded_at = NULL WHERE id IN
    (SELECT id FROM inbox WHERE forwarded_at < $3 AND received_at >= $2 AND ($1 = '' OR tenant = $1) LIMIT $4)";

pub const END_LEASES: &str = "DELETE FROM inbox_leases";

pub const FORGET_LEASES: &str = "DELETE FROM inbox_leases WHERE free_at < $1";

impl<D: Dialect> SqlStore<D> {
    async fn waiting_keys(&self, after: &str, limit: u32) -> Result<Vec<QueuedKey>> {
        let mut connection = self.reader.acquire().await?;
        let rows = query_as(WAITING_KEYS).bind(after.to_owned()).bind(i64::from(limit));
        let rows: Vec<FoundRow> = rows.fetch_all(&mut *connection).await?;
        connection.release();
        Ok(rows.into_iter().filter_map(FoundRow::into_found).collect())
    }

    async fn lease_keys(&self, holder: Uuid, keys: &[Key], now: Timestamp) -> Result<Vec<(Key, KeyLease)>> {
        // Sorted, so two forwarders cannot deadlock.
        let mut ids: Vec<_> = keys.iter().map(|key| [key.workflow_id()]).collect();
        ids.sort_unstable();
        let mut connection = self.writer.acquire().await?;
        let statement = query_as(Self::expand_each(LEASE)).bind(to_json(&ids)?).bind(holder.to_string());
        let statement =
            statement.bind(KeyLease::acquire_at(0, now).free_at.as_millisecond()).bind(now.as_millisecond());
        let statement = statement.bind(StoredWait::INBOX_LEASE.latest_plausible(now).as_millisecond());
        let rows: Vec<FoundRow> = statement.fetch_all(&mut *connection).await?;
        connection.release();
        let found = rows.into_iter().filter_map(FoundRow::into_found);
        Ok(found.filter_map(|found| Some((found.key, found.lease?))).collect())
    }

    async fn pending_items(&self, key: &Key, limit: u32) -> Result<Vec<PendingItem>> {
        let mut connection = self.reader.acquire().await?;
        let rows = query(WAITING).bind(key.workflow_id()).bind(i64::from(limit));
        let waiting = rows.try_map(Self::to_record).fetch_all(&mut *connection).await?;
        connection.release();
        Ok(waiting)
    }

    async fn mark_forwarded(
        &self,
        holder: Uuid,
        key: &Key,
        items: &[i64],
        lease: KeyLease,
        now: Timestamp,
    ) -> Result<()> {
        let mut tx = self.begin_write().await?;
        if !items.is_empty() {
            let ids: Vec<_> = items.iter().map(|id| [id]).collect();
            let mark = query(Self::expand_each(FORWARDED)).bind(to_json(&ids)?).bind(now.as_millisecond());
            mark.bind(key.workflow_id()).bind(holder.to_string()).execute(&mut *tx).await?;
        }
        let replace = query(REPLACE_LEASE).bind(key.workflow_id()).bind(holder.to_string());
        let replace = replace.bind(lease.free_at.as_millisecond()).bind(i64::from(lease.failures));
        replace.execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn inbox_depth(&self) -> Result<InboxDepth> {
        Ok(query(DEPTH).try_map(Self::to_record).fetch_one(&mut *self.reader.acquire().await?).await?)
    }

    async fn replay_inbox(&self, tenant: Option<&str>, since: Timestamp, now: Timestamp) -> Result<u64> {
        // A signal in flight may reach a Temporal server whose data is lost, so it should mark nothing.
        within_timeout(async { Ok(query(END_LEASES).execute(&mut *self.writer.acquire().await?).await?) }).await?;
        let mut replayed = 0;
        loop {
            // We commit each statement separately, so arrivals continue in between.
            let rows = within_timeout(async {
                let statement = query(REPLAY).bind(tenant.unwrap_or_default().to_owned()).bind(since.as_millisecond());
                let statement = statement.bind(now.as_millisecond()).bind(REPLAY_ROWS);
                Ok(D::changed_rows(&statement.execute(&mut *self.writer.acquire().await?).await?))
            })
            .await?;
            replayed += rows;
            if rows == 0 {
                return Ok(replayed);
            }
        }
    }

    async fn forget_leases(&self, now: Timestamp) -> Result<()> {
        let before = or_zero(now.checked_sub(LEASE_KEPT).ok());
        let mut connection = self.writer.acquire().await?;
        query(FORGET_LEASES).bind(before).execute(&mut *connection).await?;
        connection.release();
        Ok(())
    }
}

impl<D: Dialect> SqlStore<D> {
    /// The first call to get a connection records the items of all waiting calls.
    async fn receive_items(&self, items: Arc<[InboxItem]>, now: Timestamp) -> Result<()> {
        loop {
            let mut told = self.arrivals.push(InboxArrival { items: items.clone(), now });
            let told = tokio::select! {
                biased;
                told = &mut told => told,
                connection = self.writer.acquire() => {
                    let mut connection = connection?;
                    self.record_arrivals(&mut connection).await?;
                    connection.release();
                    told.await
                }
            };
            // If the other call failed or was dropped, try again: a duplicate event counts once.
            if told.is_ok() {
                return Ok(());
            }
        }
    }

    async fn record_arrivals(&self, connection: &mut D::Connection) -> Result<()> {
        let calls = self.arrivals.take();
        let statements = insert_batches(&calls)?;
        if let [(rows, now)] = &statements[..] {
            Self::insert_arrivals(connection, rows, *now).await?;
        } else if !statements.is_empty() {
            let mut tx = connection.begin_with(D::BEGIN_WRITE).await?;
            for (rows, now) in &statements {
                Self::insert_arrivals(&mut tx, rows, *now).await?;
            }
            tx.commit().await?;
        }
        for call in calls {
            // An error only means the caller gave up; it may repeat the call.
            let _ = call.tell.send(());
        }
        Ok(())
    }

    async fn insert_arrivals(connection: &mut D::Connection, rows: &str, now: Timestamp) -> Result<()> {
        let insert = query(Self::expand_each(RECEIVE)).bind(rows.to_owned()).bind(now.as_millisecond());
        insert.execute(connection).await?;
        Ok(())
    }
}

/// Batches all calls' rows into few statements. A statement's rows share its first call's time.
fn insert_batches(calls: &[Call<InboxArrival, ()>]) -> Result<Vec<(String, Timestamp)>> {
    let mut statements = Vec::new();
    let (mut rows, mut bytes, mut at): (Vec<Value>, usize, Option<Timestamp>) = (Vec::new(), 0, None);
    for call in calls {
        let InboxArrival { items, now } = &call.record;
        for item in items.iter() {
            let Key { tenant, user, .. } = &item.key;
            let size = item.json.len();
            rows.push(value!([item.key.workflow_id(), tenant, user, item.kind.name(), item.json, size]));
            bytes += size;
            let begun = *at.get_or_insert(*now);
            if bytes >= STATEMENT_BYTES {
                statements.push((to_json(&rows)?, begun));
                (bytes, at) = (0, None);
                rows.clear();
            }
        }
    }
    if let Some(begun) = at {
        statements.push((to_json(&rows)?, begun));
    }
    Ok(statements)
}

row! {
pub struct FoundRow {
    workflow_id: String,
    free_at: Option<Timestamp>,
    failures: Option<u32>,
}
}

impl FoundRow {
    fn into_found(self) -> Option<QueuedKey> {
        let lease = self.free_at.zip(self.failures).map(|(free_at, failures)| KeyLease { free_at, failures });
        Some(QueuedKey { key: Key::from_workflow_id(&self.workflow_id).ok()?, lease })
    }
}

record!(row => InboxDepth { events, bytes, oldest });
record!(row => PendingItem { id, kind, json });
