//! Turns a due window into a digest: returned events, exclusions and the recipient's cap (rules 1 and 13).

use std::collections::BTreeSet;

use jiff::Timestamp;
use sqlx::{FromRow as _, query, query_as};
use tidings_model::{
    Event, Key,
    records::{
        CapSpan, ClaimCounts, ClaimLimits, ClaimOutcome, DigestContents, DigestState, EventExclusion, KeyFacts,
        RenderedClaim,
    },
    settings::DisplayLimits,
    window::Window,
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    directory::{FactsRow, ZONE_REVISIONS, facts},
    exclusion::{COUNT_EXCLUDED, UnwantedEvents},
    names::tenants,
    sql::{
        SqlStore, calls, checked_number,
        columns::{ColumnValue, row},
        dialect::Dialect,
    },
};

calls! {
    pub trait ClaimStore {
        /// Reads the facts about a due window's key, and `true` if the window is *fresh*: it has no digest,
        /// and its key no returned event, no retract and only one name.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn facts_for_claim(&self, window: &Window) -> Result<(KeyFacts, bool)>;

        /// Ids of a window's events in the ledger: those stashed, and those returned by the key's failed
        /// digests. Latest first, at most `most`.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn window_events(&self, window: &Window, most: u32) -> Result<Vec<String>>;

        /// Makes a fresh window a digest and stores its message, in one transaction. Returns `false` and
        /// writes nothing if the window is no longer fresh or one of its events is recorded.
        #[span(key = %claim.window.key, digest = %claim.window.digest_id)]
        async fn claim_rendered(&self, claim: RenderedClaim<'_>) -> Result<bool>;

        /// Makes a window a digest, in one transaction.
        ///
        /// Writes `events` like [`Ledger::stash`](crate::Ledger::stash_events), and adds those returned by the key's
        /// failed digests. Excludes events which are retracted, seen, too old, too few, or in a category
        /// turned off; each kind gets its own digest, which ends as skipped.
        ///
        /// Over the recipient's cap this writes nothing. A digest of this key counts from its
        /// [slot](ClaimLimits::slot_at), or else from its claim; digests of other types count from their
        /// claim, unless they end without an email. Two concurrent claims never exceed the cap.
        ///
        /// A digest with a message or an end stays unchanged.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn claim(
            &self,
            window: &Window,
            events: &[Event],
            limits: &ClaimLimits<'_>,
            now: Timestamp,
        ) -> Result<ClaimOutcome>;

        /// If the cap is reached, when the oldest digest counts from. Takes no lock, so a claim will check
        /// again.
        #[span(key = %key)]
        async fn capped_from(&self, key: &Key, cap: CapSpan) -> Result<Option<Timestamp>>;

        #[span(key = %window.key, digest = %window.digest_id)]
        async fn preview_claim(
            &self,
            window: &Window,
            events: &[Event],
            off: &BTreeSet<String>,
            shown: DisplayLimits<'_>,
        ) -> Result<DigestContents>;

        /// The `shown` lines, and sums over all. Lines rank by category priority, then by event count, then
        /// by latest event, then by (category, `entity_type`, `entity_id`) in byte order (rule 19). Sums
        /// saturate at `i64`.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn contents(&self, window: &Window, shown: DisplayLimits<'_>) -> Result<DigestContents>;
    }
}

pub const CLAIM_DIGEST: &str = "
UPDATE digests SET state = 'claimed', claimed_at = $2, due_at = $3, slot_at = NULLIF($4, 0)
WHERE digest_id = $1 AND state = 'open'";

/// A condition: the key `$1`, `$2`, `$3` has a returned event, a retract, or another name (the ledger may
/// have events under it).
macro_rules! needs_ledger {
    () => {
        concat!(
            "(EXISTS (SELECT 1 FROM events
          WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL)
  OR EXISTS (SELECT 1 FROM retracts WHERE tenant = $1 AND digest_type = $2 AND user_id = $3)
  OR ",
            $crate::names::has_other_names!(),
            ")"
        )
    };
}
pub(super) use needs_ledger;

pub const FACTS_FOR_CLAIM: &str = facts!(
    concat!(
        ", NOT (EXISTS (SELECT 1 FROM digests WHERE digest_id = $4)
  OR ",
        needs_ledger!(),
        ") AS fresh"
    ),
    ""
);

/// When a digest counts from, for the digest type `$6`. Other types count from their claim, because email
/// delayed by a pause or an outage counts as today's.
macro_rules! counts_from {
    () => {
        "CASE WHEN digest_type IN (SELECT CAST($6 AS TEXT) UNION ALL SELECT alias FROM aliases WHERE kind = 'digest' AND name = $6)
     THEN COALESCE(slot_at, claimed_at) ELSE claimed_at END"
    };
}

/// The recipient's digests claimed until `$7` and counting after `$3` which were sent or may still be sent;
/// latest first. A slot is never later than its claim.
pub const COUNTED_SINCE: &str = concat!(
    "
SELECT ",
    counts_from!(),
    " AS counts_from FROM digests
WHERE tenant IN (SELECT tenant FROM ",
    tenants!(),
    " t) AND user_id = $2 AND claimed_at > $3 AND claimed_at <= $7 AND ",
    counts_from!(),
    " > $3 AND digest_id <> $4
  AND (outcome IS NULL OR outcome IN ('sent', 'ambiguous'))
ORDER BY counts_from DESC LIMIT $5"
);

/// Ids of the events in digest `$1`, and of returned events of the key `$2`, `$3`, `$4`; `$5` limit; latest
/// first.
pub const WINDOW_EVENTS: &str = "
SELECT event_id FROM events
WHERE digest_id = $1 OR (tenant = $2 AND digest_type = $3 AND user_id = $4 AND returned_at IS NOT NULL)
ORDER BY occurred_at DESC, event_id LIMIT $5";

impl<D: Dialect> SqlStore<D> {
    async fn facts_for_claim(&self, window: &Window) -> Result<(KeyFacts, bool)> {
        let Key { tenant, digest_type, user } = &window.key;
        let mut connection = self.reader.acquire().await?;
        let statement = query(FACTS_FOR_CLAIM).bind(tenant).bind(digest_type).bind(user);
        let row = statement.bind(window.digest_id.to_string()).fetch_one(&mut *connection).await?;
        connection.release();
        let FreshRow { fresh } = FreshRow::from_row(&row)?;
        Ok((FactsRow::from_row(&row)?.into_facts(&window.key), fresh))
    }

    async fn window_events(&self, window: &Window, most: u32) -> Result<Vec<String>> {
        let Key { tenant, digest_type, user } = &window.key;
        let statement = query_as(WINDOW_EVENTS).bind(window.digest_id.to_string()).bind(tenant).bind(digest_type);
        let statement = statement.bind(user).bind(i64::from(most));
        let ids: Vec<(String,)> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    async fn claim(
        &self,
        window: &Window,
        events: &[Event],
        limits: &ClaimLimits<'_>,
        now: Timestamp,
    ) -> Result<ClaimOutcome> {
        let mut tx = self.begin_write().await?;
        let digest = Self::collect_events(&mut tx, window, limits.planned, events, None, now).await?;
        Self::adopt_orphans(&mut tx, window, &digest, None, now).await?;
        Self::record_refused(&mut tx, &window.key, &digest.refused, now).await?;
        let unwanted = UnwantedEvents { off: limits.off, seen: limits.seen, categories: limits.categories };
        Self::exclude_unwanted(&mut tx, window, &digest, unwanted, now).await?;
        let (items, lines) = Self::items_and_lines(&mut tx, window.digest_id).await?;
        if digest.state == DigestState::Open {
            if let Some(cap) = limits.cap.filter(|_| items > 0)
                && let Some(oldest) = Self::check_cap(&mut tx, window, cap).await?
            {
                return Ok(ClaimOutcome::Capped { oldest });
            }
            let claim = query(CLAIM_DIGEST).bind(window.digest_id.to_string()).bind(now.as_millisecond());
            let claim = claim.bind(window.due_at.as_millisecond());
            claim.bind(limits.slot_at.map_or(0, Timestamp::as_millisecond)).execute(&mut *tx).await?;
        }
        let aside = EventExclusion::ALL
            .iter()
            .fold(query_as(COUNT_EXCLUDED), |statement, reason| statement.bind(reason.digest_id(window).to_string()));
        let (aside,): (i64,) = aside.fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(ClaimOutcome::Claim(ClaimCounts { items, lines, taken: digest.taken, aside: checked_number(aside)? }))
    }

    async fn capped_from(&self, key: &Key, cap: CapSpan) -> Result<Option<Timestamp>> {
        let mut tx = self.begin_read().await?;
        let oldest = Self::oldest_counted(&mut tx, key, Uuid::nil(), cap).await?;
        tx.commit().await?;
        Ok(oldest)
    }

    async fn preview_claim(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        shown: DisplayLimits<'_>,
    ) -> Result<DigestContents> {
        let mut tx = self.begin_write().await?;
        // These rows are rolled back, so the time does not matter. Adopts nothing, because an orphaned digest
        // may be in delivery.
        let digest = Self::collect_events(&mut tx, window, None, events, None, window.due_at).await?;
        let unwanted = UnwantedEvents { off, seen: &BTreeSet::new(), categories: shown.categories };
        Self::exclude_unwanted(&mut tx, window, &digest, unwanted, window.due_at).await?;
        let contents = Self::contents_of(&mut tx, window.digest_id, shown).await?;
        tx.rollback().await?;
        Ok(contents)
    }

    async fn contents(&self, window: &Window, shown: DisplayLimits<'_>) -> Result<DigestContents> {
        let mut tx = self.begin_read().await?;
        let contents = Self::contents_of(&mut tx, window.digest_id, shown).await?;
        tx.commit().await?;
        Ok(contents)
    }
}

impl<D: Dialect> SqlStore<D> {
    /// Like `oldest_counted`, but locks the recipient's row first, so no other claim of theirs can count
    /// until this one is written.
    async fn check_cap(connection: &mut D::Connection, window: &Window, cap: CapSpan) -> Result<Option<Timestamp>> {
        let Key { tenant, user, .. } = &window.key;
        query(D::pick_variant(ZONE_REVISIONS)).bind(tenant).bind(user).execute(&mut *connection).await?;
        Self::oldest_counted(connection, &window.key, window.digest_id, cap).await
    }

    /// If the cap is reached, when the oldest digest counts from. Ignores `digest_id` itself.
    async fn oldest_counted(
        connection: &mut D::Connection,
        Key { tenant, digest_type, user }: &Key,
        digest_id: Uuid,
        cap: CapSpan,
    ) -> Result<Option<Timestamp>> {
        let statement = query_as(COUNTED_SINCE).bind(tenant).bind(user).bind(cap.since.as_millisecond());
        let statement = statement.bind(digest_id.to_string()).bind(i64::from(cap.most)).bind(digest_type);
        let statement = statement.bind(cap.until.as_millisecond());
        let counted: Vec<(i64,)> = statement.fetch_all(connection).await?;
        match counted.last() {
            Some((oldest,)) if counted.len() as u64 >= u64::from(cap.most) => Ok(Some(
                <Timestamp as ColumnValue>::read(*oldest).map_err(|error| StoreError::Broken(error.to_string()))?,
            )),
            _ => Ok(None),
        }
    }
}

row! {
pub struct FreshRow {
    fresh: bool,
}
}
