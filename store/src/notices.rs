//! Notices for subscribed services. Database triggers write them in the transaction of
//! the fact they report (rule 47).
//!
//! For one key, a later fact has the higher `seq`. But another key's lower `seq` may be committed later, so
//! we mark rows one by one and never "up to" a number.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    StoredWait,
    records::AuditEntry,
    subscription::{
        DeadNotice, DeliveryOutcomes, DeliveryResult, GIVE_UP_AFTER, NoticeFact, PendingNotice, ReplayScope,
        RetiredNotices, SubscriptionState, WebhookSubscription,
    },
};

use crate::{
    Result,
    sql::{
        SqlStore, calls, checked_number,
        columns::record,
        dialect::{Dialect, StatementVariants},
        or_zero, to_json, within_timeout,
    },
};

calls! {
    pub trait NoticeStore {
        /// Adds these subscriptions; with `forgets`, removes all others. A renamed subscription keeps its
        /// pending notices and dead letters. Pending notices for removed subscriptions stay pending.
        #[span(subscriptions = subscriptions.len(), forgets)]
        async fn subscribe(&self, subscriptions: &[WebhookSubscription], forgets: bool) -> Result<()>;

        /// Removed subscriptions with their pending notices. Notices pending there for a day become dead
        /// letters.
        async fn retire_notices(&self, now: Timestamp) -> Result<Vec<RetiredNotices>>;

        async fn newest_notices(&self) -> Result<Vec<(String, i64)>>;

        /// At most `limit` notices ready for delivery, by `seq`. Skips a lane while its oldest notice is
        /// backing off.
        #[span(subscription)]
        async fn ready_notices(&self, subscription: &str, limit: u32, now: Timestamp) -> Result<Vec<PendingNotice>>;

        #[span(subscription)]
        async fn next_notice(&self, subscription: &str, now: Timestamp) -> Result<Option<Timestamp>>;

        /// Records delivery results. Returns the number of new dead letters. A notice that ended meanwhile
        /// stays unchanged.
        #[span(subscription)]
        async fn settle_notices(&self, subscription: &str, settled: &DeliveryOutcomes, now: Timestamp) -> Result<u64>;

        /// Requeues notices that ended before now with facts recorded at `since` or later. Also retries a
        /// receiver that returned 410. Returns their number, or `None` for an unknown subscription.
        #[span(subscription)]
        #[limit(each_step)]
        async fn replay_notices(
            &self,
            subscription: &str,
            since: Timestamp,
            which: ReplayScope,
            entry: &AuditEntry,
        ) -> Result<Option<u64>>;

        #[span(subscription)]
        async fn dead_notices(&self, subscription: &str, limit: u32) -> Result<Vec<DeadNotice>>;

        /// All subscriptions by name, plus removed ones with pending notices or dead letters. Each count uses
        /// an index and stops at `most`.
        async fn subscriptions(&self, most: u32) -> Result<Vec<SubscriptionState>>;
    }
}

const REPLAY_ROWS: i64 = 5_000;
const REMOVED: &str = "removed";

/// Serializes workers starting at the same time.
pub const LOCK_SUBSCRIPTIONS: StatementVariants =
    StatementVariants { sqlite: "SELECT 1", postgres: "LOCK TABLE subscriptions IN SHARE ROW EXCLUSIVE MODE" };

pub const FORGET_SUBSCRIPTIONS: &str = "
DELETE FROM subscriptions WHERE (event, name) NOT IN (SELECT value->>0, value->>1 FROM {each})";

/// A gone receiver stays gone, even for new event types.
pub const PUT_SUBSCRIPTIONS: &str = "
INSERT INTO subscriptions (event, name, tenant, digest_type, gone_at)
SELECT value->>0, value->>1, value->>2, value->>3, (SELECT MAX(s.gone_at) FROM subscriptions s WHERE s.name = value->>1)
FROM {each} WHERE TRUE
ON CONFLICT (event, name) DO UPDATE SET tenant = excluded.tenant, digest_type = excluded.digest_type
WHERE subscriptions.tenant <> excluded.tenant OR subscriptions.digest_type <> excluded.digest_type";

/// `$1` a former name of subscription `$2`, here and below. A gone receiver stays gone.
pub const RENAME_SUBSCRIPTION: &str = "
UPDATE subscriptions SET name = $2
WHERE name = $1 AND event NOT IN (SELECT event FROM subscriptions WHERE name = $2)";
pub const RENAME_WAITING: &str = "UPDATE notices SET subscription = $2 WHERE subscription = $1 AND ended_at IS NULL";
pub const RENAME_DEAD: &str = "
UPDATE notices SET subscription = $2 WHERE subscription = $1 AND ended_at IS NOT NULL AND result <> 'delivered'";
/// A worker with the old file may have written it again.
pub const FORGET_FORMER: &str = "DELETE FROM subscriptions WHERE name = $1";

/// `$1` reason. A restored subscription gets its pending notices as if never tried.
pub const WELCOME_BACK: &str = "
UPDATE notices SET result = NULL, first_tried_at = NULL
WHERE ended_at IS NULL AND result = $1 AND subscription IN (SELECT name FROM subscriptions)";

/// `$1` now, `$2` reason. The day of grace starts when we first notice the removal.
pub const MARK_REMOVED: &str = "
UPDATE notices SET first_tried_at = $1, result = $2
WHERE ended_at IS NULL AND subscription NOT IN (SELECT name FROM subscriptions) AND COALESCE(result, '') <> $2";

/// `$1` now, `$2` reason, `$3` notices whose day started until this time expire.
pub const END_REMOVED: &str = "
UPDATE notices SET ended_at = $1
WHERE ended_at IS NULL AND result = $2 AND first_tried_at <= $3 AND subscription NOT IN (SELECT name FROM subscriptions)
RETURNING subscription";

pub const WAITING_FOR_REMOVED: &str = "
SELECT subscription, COUNT(*) FROM notices
WHERE ended_at IS NULL AND subscription NOT IN (SELECT name FROM subscriptions) GROUP BY subscription";

pub const NEWEST: &str = "
SELECT n.name, n.seq FROM (
    SELECT s.name, (SELECT MAX(seq) FROM notices WHERE subscription = s.name AND ended_at IS NULL) AS seq
    FROM (SELECT DISTINCT name FROM subscriptions) s) n
WHERE n.seq IS NOT NULL";

macro_rules! notices {
    ($columns:literal) => {
        concat!(
            "
SELECT n.seq, n.id, n.event, n.lane, n.tenant, n.digest_type, n.user_id, n.digest_id, n.message, n.outcome, n.reason,
       n.occurred_at, n.tries, n.first_tried_at",
            $columns,
            " FROM notices n "
        )
    };
}

pub const READY: &str = concat!(
    notices!(""),
    "
WHERE n.subscription = $1 AND n.ended_at IS NULL AND (n.retry_at <= $2 OR n.retry_at > $4)
  AND NOT EXISTS (SELECT 1 FROM notices e
                  WHERE e.subscription = $1 AND e.lane = n.lane AND e.ended_at IS NULL AND e.retry_at > 0 AND e.retry_at > $2
                    AND e.retry_at <= $4 AND e.seq < n.seq)
ORDER BY n.seq LIMIT $3"
);

pub const NEXT: &str = "
SELECT MIN(retry_at) FROM notices
WHERE subscription = $1 AND ended_at IS NULL AND retry_at > 0 AND retry_at > $2 AND retry_at <= $3";

pub const DELIVERED: &str = "
UPDATE notices SET ended_at = $2, result = 'delivered', tries = tries + 1, first_tried_at = COALESCE(first_tried_at, $2)
WHERE ended_at IS NULL AND seq IN (SELECT CAST(value->>0 AS BIGINT) FROM {each})";

pub const FAILED: &str = "
UPDATE notices SET result = $3, tries = tries + 1, first_tried_at = COALESCE(first_tried_at, $2), retry_at = $4,
    ended_at = CASE WHEN $4 = 0 THEN $2 END
WHERE ended_at IS NULL AND seq = $1";

pub const TRIED_ALL: &str = "
UPDATE notices SET first_tried_at = $2, result = $3 WHERE subscription = $1 AND ended_at IS NULL AND first_tried_at IS NULL";
pub const GIVE_UP_ALL: &str = "
UPDATE notices SET ended_at = $2, result = $3 WHERE subscription = $1 AND ended_at IS NULL AND first_tried_at <= $4";

pub const GONE: &str = "UPDATE subscriptions SET gone_at = COALESCE(gone_at, $2) WHERE name = $1";
pub const END_ALL: &str =
    "UPDATE notices SET ended_at = $2, result = 'gone' WHERE subscription = $1 AND ended_at IS NULL";

pub const IS_SUBSCRIBED: &str = "SELECT name FROM subscriptions WHERE name = $1 LIMIT 1";
pub const BACK: &str = "UPDATE subscriptions SET gone_at = NULL WHERE name = $1 AND gone_at IS NOT NULL";

macro_rules! waits_again {
    () => {
        "UPDATE notices SET ended_at = NULL, result = NULL, tries = 0, first_tried_at = NULL, retry_at = 0 "
    };
}

pub const DEAD: &str = concat!(
    notices!(", n.result, n.ended_at"),
    "WHERE n.subscription = $1 AND n.ended_at IS NOT NULL AND n.result <> 'delivered'
     ORDER BY n.ended_at DESC, n.seq DESC LIMIT $2"
);

pub const REPLAY: &str = concat!(
    waits_again!(),
    "WHERE seq IN (SELECT seq FROM notices
                   WHERE ended_at < $3 AND subscription = $1 AND recorded_at >= $2 AND ($5 OR result <> 'delivered')
                   ORDER BY ended_at, seq LIMIT $4)"
);

/// `$1` each count's limit. Finds names with pending notices or dead letters by skipping through their
/// indexes.
pub const STATES: &str = "
WITH RECURSIVE left_behind (name) AS (
    SELECT MIN(subscription) FROM notices WHERE ended_at IS NULL
    UNION ALL
    SELECT (SELECT MIN(n.subscription) FROM notices n WHERE n.ended_at IS NULL AND n.subscription > left_behind.name)
    FROM left_behind WHERE left_behind.name IS NOT NULL),
dead (name) AS (
    SELECT MIN(subscription) FROM notices WHERE ended_at IS NOT NULL AND result <> 'delivered'
    UNION ALL
    SELECT (SELECT MIN(n.subscription) FROM notices n
            WHERE n.ended_at IS NOT NULL AND n.result <> 'delivered' AND n.subscription > dead.name)
    FROM dead WHERE dead.name IS NOT NULL)
SELECT s.name,
       (SELECT COUNT(*) FROM (SELECT 1 FROM notices n WHERE n.subscription = s.name AND n.ended_at IS NULL LIMIT $1) w) AS waiting,
       (SELECT n.recorded_at FROM notices n WHERE n.subscription = s.name AND n.ended_at IS NULL ORDER BY n.seq LIMIT 1) AS oldest_at,
       (SELECT COUNT(*) FROM (SELECT 1 FROM notices n
                              WHERE n.subscription = s.name AND n.ended_at IS NOT NULL AND n.result <> 'delivered'
                              LIMIT $1) d) AS dead,
       (SELECT MAX(g.gone_at) FROM subscriptions g WHERE g.name = s.name) AS gone_at
FROM (SELECT name FROM subscriptions UNION SELECT name FROM dead WHERE name IS NOT NULL
      UNION SELECT name FROM left_behind WHERE name IS NOT NULL) s
ORDER BY s.name";

impl<D: Dialect> SqlStore<D> {
    async fn subscribe(&self, subscriptions: &[WebhookSubscription], forgets: bool) -> Result<()> {
        let rows = subscriptions.iter().flat_map(|subscription| {
            let WebhookSubscription { name, events, tenant, digest_type, .. } = subscription;
            events.iter().map(move |event| {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                [event.name().to_owned(), name.clone(), part(tenant), part(digest_type)]
            })
        });
        let rows = to_json(&rows.collect::<Vec<_>>())?;
        let mut tx = self.begin_write().await?;
        query(D::pick_variant(LOCK_SUBSCRIPTIONS)).execute(&mut *tx).await?;
        for WebhookSubscription { name, was, .. } in subscriptions {
            for former in was {
                for rename in [RENAME_SUBSCRIPTION, RENAME_WAITING, RENAME_DEAD] {
                    query(rename).bind(former.clone()).bind(name.clone()).execute(&mut *tx).await?;
                }
                query(FORGET_FORMER).bind(former.clone()).execute(&mut *tx).await?;
            }
        }
        query(Self::expand_each(PUT_SUBSCRIPTIONS)).bind(rows.clone()).execute(&mut *tx).await?;
        if forgets {
            query(Self::expand_each(FORGET_SUBSCRIPTIONS)).bind(rows).execute(&mut *tx).await?;
        }
        query(WELCOME_BACK).bind(REMOVED.to_owned()).execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn retire_notices(&self, now: Timestamp) -> Result<Vec<RetiredNotices>> {
        let (at, removed) = (now.as_millisecond(), || REMOVED.to_owned());
        let day_ago = or_zero(now.checked_sub(GIVE_UP_AFTER).ok());
        let mut tx = self.begin_write().await?;
        query(MARK_REMOVED).bind(at).bind(removed()).execute(&mut *tx).await?;
        let ended = query_as(END_REMOVED).bind(at).bind(removed()).bind(day_ago);
        let ended: Vec<(String,)> = ended.fetch_all(&mut *tx).await?;
        let waiting: Vec<(String, i64)> = query_as(WAITING_FOR_REMOVED).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        let mut retired = BTreeMap::<String, RetiredNotices>::new();
        for (name, count) in waiting {
            let waiting = checked_number(count)?;
            retired.insert(name.clone(), RetiredNotices { subscription: name, waiting, ended: 0 });
        }
        for (name,) in ended {
            let of = || RetiredNotices { subscription: name.clone(), waiting: 0, ended: 0 };
            retired.entry(name.clone()).or_insert_with(of).ended += 1;
        }
        Ok(retired.into_values().collect())
    }

    async fn newest_notices(&self) -> Result<Vec<(String, i64)>> {
        let mut connection = self.reader.acquire().await?;
        let rows: Vec<(String, i64)> = query_as(NEWEST).fetch_all(&mut *connection).await?;
        connection.release();
        Ok(rows)
    }

    async fn ready_notices(&self, subscription: &str, limit: u32, now: Timestamp) -> Result<Vec<PendingNotice>> {
        let mut connection = self.reader.acquire().await?;
        let ready = query(READY).bind(subscription.to_owned()).bind(now.as_millisecond());
        let ready = ready.bind(i64::from(limit)).bind(farthest_retry(now)).try_map(Self::to_record);
        let ready = ready.fetch_all(&mut *connection).await?;
        connection.release();
        Ok(ready)
    }

    async fn next_notice(&self, subscription: &str, now: Timestamp) -> Result<Option<Timestamp>> {
        let mut connection = self.reader.acquire().await?;
        let next = query_as(NEXT).bind(subscription.to_owned()).bind(now.as_millisecond()).bind(farthest_retry(now));
        let (next,): (Option<i64>,) = next.fetch_one(&mut *connection).await?;
        connection.release();
        Ok(next.and_then(|at| Timestamp::from_millisecond(at).ok()))
    }

    async fn settle_notices(&self, subscription: &str, settled: &DeliveryOutcomes, now: Timestamp) -> Result<u64> {
        let DeliveryOutcomes { delivered, failed, away, gone } = settled;
        let at = now.as_millisecond();
        let of_all = |statement| query(statement).bind(subscription.to_owned()).bind(at);
        let mut dead = failed.iter().filter(|(_, _, retry)| retry.is_none()).count() as u64;
        let mut tx = self.begin_write().await?;
        if !delivered.is_empty() {
            let ids: Vec<_> = delivered.iter().map(|seq| [seq]).collect();
            query(Self::expand_each(DELIVERED)).bind(to_json(&ids)?).bind(at).execute(&mut *tx).await?;
        }
        for (seq, result, retry) in failed {
            let failed = query(FAILED).bind(*seq).bind(at).bind(result.name().to_owned());
            failed.bind(or_zero(*retry)).execute(&mut *tx).await?;
        }
        if let Some(result) = away.map(DeliveryResult::name) {
            of_all(TRIED_ALL).bind(result.to_owned()).execute(&mut *tx).await?;
            let given_up = or_zero(now.checked_sub(GIVE_UP_AFTER).ok());
            let given_up = of_all(GIVE_UP_ALL).bind(result.to_owned()).bind(given_up).execute(&mut *tx).await?;
            dead += D::changed_rows(&given_up);
        }
        if *gone {
            of_all(GONE).execute(&mut *tx).await?;
            dead += D::changed_rows(&of_all(END_ALL).execute(&mut *tx).await?);
        }
        tx.commit().await?;
        Ok(dead)
    }

    async fn replay_notices(
        &self,
        subscription: &str,
        since: Timestamp,
        which: ReplayScope,
        entry: &AuditEntry,
    ) -> Result<Option<u64>> {
        let known = within_timeout(async {
            let mut tx = self.begin_write().await?;
            let known = query_as(IS_SUBSCRIBED).bind(subscription.to_owned());
            let known: Option<(String,)> = known.fetch_optional(&mut *tx).await?;
            if known.is_some() {
                query(BACK).bind(subscription.to_owned()).execute(&mut *tx).await?;
                Self::audit_tenant(&mut tx, "", entry).await?;
            }
            tx.commit().await?;
            Ok(known.is_some())
        });
        if !known.await? {
            return Ok(None);
        }
        let mut replayed = 0;
        loop {
            // We commit each statement separately, so facts can be recorded in between.
            let rows = within_timeout(async {
                let replay = query(REPLAY).bind(subscription.to_owned()).bind(since.as_millisecond());
                let replay = replay.bind(entry.at.as_millisecond()).bind(REPLAY_ROWS);
                let replay = replay.bind(which == ReplayScope::All);
                Ok(D::changed_rows(&replay.execute(&mut *self.writer.acquire().await?).await?))
            })
            .await?;
            replayed += rows;
            if rows == 0 {
                return Ok(Some(replayed));
            }
        }
    }

    async fn dead_notices(&self, subscription: &str, limit: u32) -> Result<Vec<DeadNotice>> {
        let dead = query(DEAD).bind(subscription.to_owned()).bind(i64::from(limit));
        self.read_records(dead).await
    }

    async fn subscriptions(&self, most: u32) -> Result<Vec<SubscriptionState>> {
        let states = query(STATES).bind(i64::from(most));
        self.read_records(states).await
    }
}

/// A later retry time comes from a clock that was ahead, and counts as due.
fn farthest_retry(now: Timestamp) -> i64 {
    StoredWait::NOTICE_RETRY.latest_plausible(now).as_millisecond()
}

record!(row => PendingNotice { seq, id, event, lane, about: NoticeFact::read::<D>(row)?, tries, first_tried_at });

record!(row => DeadNotice {
    id, r#type = "event", occurred_at, ended_at, result, tries, data: NoticeFact::read::<D>(row)?,
});

record!(row => NoticeFact {
    occurred_at, tenant, digest_type, user = "user_id", digest_id, message_id = "message", outcome, reason,
});

record!(row => SubscriptionState { name, waiting, oldest_at, dead_letters = "dead", gone_at });
