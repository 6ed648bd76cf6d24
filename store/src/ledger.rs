//! The life of a digest in the ledger: opened by its first page of events, and closed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use tidings_model::{
    Content, Event, Key, Repetition, Retract,
    limits::BATCH_EVENTS,
    records::{Closing, DigestRecord, DigestState, KnownEvents, Reached},
    step::{Ending, Returned},
    window::Window,
};
use uuid::Uuid;

use crate::{
    Result,
    digest::{DIGEST, DIGESTS},
    ending::Adoption,
    events::{RECORDED_EVENTS, RecordedRow},
    names::names,
    sql::{
        Sql, calls,
        dialect::{Dialect, Variants},
        json,
    },
};

calls! {
    /// Digests, their events and their ends.
    ///
    /// A digest is *orphaned* if it has no end and no attempt, and its window opened before the one that asks. Its workflow task was
    /// lost, and the same events came again. The later window adopts its events, and the orphan ends as skipped.
    pub trait Ledger {
        /// Returns the known ones of `event_ids`, in the order given. A key knows an event if its digest has an end or is `open`.
        /// A digest without an end may stem from a lost workflow task. That workflow asks again, and its events must be new then.
        ///
        /// `contents` has the content of each, or nothing, if a former workflow asks. Other content of an event that is in no message yet is
        /// not known: a later write takes it in. Nor is what occurred after the event was retracted. Changes nothing.
        #[span(key = %key)]
        async fn known_events(
            &self,
            key: &Key,
            event_ids: &[String],
            contents: &[Content],
            open: Option<Uuid>,
        ) -> Result<KnownEvents>;

        /// Records that other content came under ids of events that are over. Of several contents of an id the latest stays.
        #[span(key = %key, events = refused.len())]
        async fn refuse_contents(&self, key: &Key, refused: &[(String, Content)], now: Timestamp) -> Result<()>;

        /// What each of the events is, as far as the ledger knows its id from a digest that has a message or an end. Changes nothing.
        #[span(events = events.len())]
        async fn repetitions(&self, events: &[(Key, String, Content)]) -> Result<Vec<Option<Repetition>>>;

        /// Writes a page of events under the window's digest, which stays open. Known event ids are left alone, unless the event is in no
        /// message yet: then other content is [merged](Event::merge) into it. An event that occurred after its retract is written anew.
        ///
        /// Adopts the events of orphaned digests that have one of these events, except for the digest `delivering`, which is in
        /// delivery.
        ///
        /// Returns the number of events, from the first on, that the ledger has now ([`Ending::taken`]). A digest with a message or
        /// an end takes none: later events belong to a later window.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64>;

        /// Retracts events. A retract removes an event from its digest at the next claim, and also covers events that come later and
        /// occurred before. A retract by id covers the event that the ledger has; without one, what occurred until `now`. One with a time of
        /// its own covers nothing that occurred later, however often it is put. Of several retracts of one entity or id the latest time stays.
        /// From then on no attempt passes the dot with a retracted event: an attempt that is under way is fenced, and
        /// the next one finds the message to be made again.
        #[span(key = %key)]
        async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()>;

        /// Reads what each of the retracts reaches as the ledger is now. For a retract by entity, digests that ended more than a day ago
        /// do not count.
        #[span(count = retracts.len())]
        async fn reach(&self, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<Reached>>;

        /// Ends a digest in one transaction with its `events`, which are written as [`Ledger::stash`] does, and an audit entry.
        ///
        /// With `return_events` the events join the key's next claim, unless they were returned twice before (rule 25). The end of a
        /// window that was not claimed takes the events that wait for one. The first recorded end stays. Returns that end. A repeated
        /// call may bring more events for the same end.
        #[span(key = %closing.window.key, digest = %closing.window.digest_id)]
        async fn close(&self, closing: Closing<'_>) -> Result<Ending>;

        /// Ends a digest that takes a part of a window's events, as [`Ledger::close`] does. From an orphaned digest it adopts these
        /// events only, and from the digest `delivering` none.
        #[span(key = %closing.window.key, digest = %closing.window.digest_id)]
        async fn exclude(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending>;

        /// The events of the key that failed digests returned, and that wait for its next claim. Of these it has at least one.
        #[span(key = %key)]
        async fn returned(&self, key: &Key) -> Result<Option<Returned>>;

        /// The first of the events that [`Ledger::returned`] counts.
        #[span(key = %key)]
        async fn returned_event(&self, key: &Key) -> Result<Option<Event>>;

        /// Reads a digest.
        #[span(digest = %digest_id)]
        async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>>;

        /// Lists a key's digests, the latest first.
        #[span(key = %key)]
        async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>>;
    }
}

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

impl<D: Dialect> Sql<D> {
    async fn known_events(
        &self,
        key: &Key,
        event_ids: &[String],
        contents: &[Content],
        open: Option<Uuid>,
    ) -> Result<KnownEvents> {
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
    }

    async fn refuse_contents(&self, key: &Key, refused: &[(String, Content)], now: Timestamp) -> Result<()> {
        let mut tx = self.write().await?;
        Self::refuse(&mut tx, key, refused, now).await?;
        Ok(tx.commit().await?)
    }

    async fn stash(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64> {
        let mut tx = self.write().await?;
        let mut digest = Self::collect(&mut tx, window, None, events, None, now).await?;
        digest.elsewhere.retain(|id| Some(*id) != delivering);
        Self::adopt_orphans(&mut tx, window, &digest, None, now).await?;
        Self::refuse(&mut tx, &window.key, &digest.refused, now).await?;
        tx.commit().await?;
        Ok(digest.taken)
    }

    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
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
    }

    async fn close(&self, closing: Closing<'_>) -> Result<Ending> {
        self.close_window(closing, Adoption::All).await
    }

    async fn exclude(&self, closing: Closing<'_>, delivering: Option<Uuid>) -> Result<Ending> {
        self.close_window(closing, Adoption::TheseExceptFrom(delivering)).await
    }

    async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        let digest = query(DIGEST).bind(digest_id.to_string());
        self.read_record(digest).await
    }

    async fn digests(&self, key: &Key, limit: u32) -> Result<Vec<DigestRecord>> {
        let digests = query(DIGESTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user).bind(i64::from(limit));
        self.read_records(digests).await
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
