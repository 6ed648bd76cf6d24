//! A digest's lifecycle in the ledger, from its first page of events to its end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{query, query_as};
use tidings_model::{
    Event, EventContent, EventRepetition, Key, Retract,
    limits::BATCH_EVENTS,
    records::{CloseRequest, DigestRecord, DigestState, KnownEvents, RetractEffect},
    step::{CloseAnswer, ReturnedEvents},
    window::Window,
};
use uuid::Uuid;

use crate::{
    Result,
    digest::{DIGEST, DIGESTS},
    ending::AdoptionScope,
    events::{RECORDED_EVENTS, RecordedRow},
    names::names,
    sql::{
        SqlStore, calls,
        dialect::{Dialect, StatementVariants},
        to_json,
    },
};

calls! {
    /// A digest is *orphaned* if it has no end and no attempt, and its window opened before the calling one.
    /// This happens if its workflow task was lost and the same events arrived again. The later window adopts
    /// its events, and the orphan ends as skipped.
    pub trait Ledger {
        /// Returns the known ones among `event_ids`, in order. An event is known if its digest has ended or
        /// is `open`. (Another open digest may come from a lost workflow task, which will ask again and
        /// should then get its events as new.)
        ///
        /// With `contents`, an event with changed content is not known while unsent, because a later write
        /// will merge it. Nor is an event newer than its retract. Changes nothing.
        #[span(key = %key)]
        async fn known_events(
            &self,
            key: &Key,
            event_ids: &[String],
            contents: &[EventContent],
            open: Option<Uuid>,
        ) -> Result<KnownEvents>;

        /// Records other content for ids of final events. Keeps the latest per id.
        #[span(key = %key, events = refused.len())]
        async fn refuse_contents(&self, key: &Key, refused: &[(String, EventContent)], now: Timestamp) -> Result<()>;

        /// Compares each event with the recorded one of the same id, if its digest has a message or an end.
        /// Changes nothing.
        #[span(events = events.len())]
        async fn find_repetitions(&self, events: &[(Key, String, EventContent)]) -> Result<Vec<Option<EventRepetition>>>;

        /// Writes a page of events to the window's open digest. Skips known events, except that an unsent one
        /// [merges](Event::merge) changed content. An event newer than its retract is written again.
        ///
        /// Adopts the events of orphaned digests sharing one of these events, except from the digest
        /// `delivering`.
        ///
        /// Returns how many events, counted from the first, the ledger has now ([`CloseAnswer::taken`]). A
        /// digest with a message or an end takes none.
        #[span(key = %window.key, digest = %window.digest_id)]
        async fn stash_events(&self, window: &Window, events: &[Event], delivering: Option<Uuid>, now: Timestamp) -> Result<u64>;

        /// Retracts events at the next claim, including events that arrive later but occurred earlier.
        ///
        /// A retract by id covers the recorded event, or else events until `now`. A retract with its own time
        /// never covers anything later. For one entity or id, the latest time counts.
        ///
        /// From now on no attempt can pass the dot with a retracted event: the attempt under way is fenced,
        /// and the next one must render the message again.
        #[span(key = %key)]
        async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()>;

        /// Reads each retract's effect on the current ledger. A retract by entity ignores digests that ended
        /// over a day ago.
        #[span(count = retracts.len())]
        async fn retract_reach(&self, retracts: &[(Key, Retract)], now: Timestamp) -> Result<Vec<RetractEffect>>;

        /// Ends a digest in one transaction, with an audit entry and its `events`, written like
        /// [`Ledger::stash_events`].
        ///
        /// With `return_events` the events join the key's next claim, at most twice (rule 25). Ending an
        /// unclaimed window also takes events waiting for a claim. The first recorded end is kept and
        /// returned. A repeated call may bring more events.
        #[span(key = %closing.window.key, digest = %closing.window.digest_id)]
        async fn close_digest(&self, closing: CloseRequest<'_>) -> Result<CloseAnswer>;

        /// Like [`Ledger::close_digest`], for a digest holding only some events of a window. From an orphaned
        /// digest it only adopts these events, and from the digest `delivering` none.
        #[span(key = %closing.window.key, digest = %closing.window.digest_id)]
        async fn exclude_events(&self, closing: CloseRequest<'_>, delivering: Option<Uuid>) -> Result<CloseAnswer>;

        /// Events returned by the key's failed digests and waiting for its next claim, if any.
        #[span(key = %key)]
        async fn returned_events(&self, key: &Key) -> Result<Option<ReturnedEvents>>;

        #[span(key = %key)]
        async fn returned_event(&self, key: &Key) -> Result<Option<Event>>;

        #[span(digest = %digest_id)]
        async fn digest(&self, digest_id: Uuid) -> Result<Option<DigestRecord>>;

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

/// Tenant, digest type, user, `$4` JSON array of distinct retracts, `$5` the time they were read.
///
/// A retract by id covers the recorded event until its own time; if none is recorded, events until its own
/// time, or else until `$5`. We store it under each name of the key, because the event may be in a window
/// under any name.
pub const PUT_RETRACTS: StatementVariants = StatementVariants {
    sqlite: put_retracts!(
        "COALESCE(MIN(r.value->>'until_at', e.occurred_at), r.value->>'until_at', e.occurred_at, $5), $5",
        "jsonb_each($4)"
    ),
    postgres: put_retracts!(
        "COALESCE(LEAST((r.value->>'until_at')::bigint, e.occurred_at), $5::bigint), $5::bigint",
        "jsonb_array_elements($4::jsonb)"
    ),
};

impl<D: Dialect> SqlStore<D> {
    async fn known_events(
        &self,
        key: &Key,
        event_ids: &[String],
        contents: &[EventContent],
        open: Option<Uuid>,
    ) -> Result<KnownEvents> {
        let statement = query_as(D::pick_variant(RECORDED_EVENTS)).bind(&key.tenant).bind(&key.digest_type);
        let statement = statement.bind(&key.user).bind(to_json(&event_ids)?);
        let rows: Vec<RecordedRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
        // Rows of ended digests come last, so an ended digest under another name wins over one still open
        // here.
        let recorded: BTreeMap<_, _> = rows.into_iter().map(|row| (row.event_id.clone(), row)).collect();
        let mut known = KnownEvents::default();
        for (index, id) in event_ids.iter().enumerate() {
            let of_an_end = |row: &&RecordedRow| row.state == DigestState::Closed || Some(row.digest_id) == open;
            let Some(row) = recorded.get(id).filter(of_an_end) else { continue };
            let content = contents.get(index);
            match content.map_or(EventRepetition::Same, |content| row.content().compare_content(content)) {
                EventRepetition::Replaces | EventRepetition::New => continue,
                EventRepetition::Refused => known.refused.extend(content.map(|content| (id.clone(), content.clone()))),
                EventRepetition::Same => {}
            }
            known.event_ids.push(id.clone());
        }
        Ok(known)
    }

    async fn refuse_contents(&self, key: &Key, refused: &[(String, EventContent)], now: Timestamp) -> Result<()> {
        let mut tx = self.begin_write().await?;
        Self::record_refused(&mut tx, key, refused, now).await?;
        Ok(tx.commit().await?)
    }

    async fn stash_events(
        &self,
        window: &Window,
        events: &[Event],
        delivering: Option<Uuid>,
        now: Timestamp,
    ) -> Result<u64> {
        let mut tx = self.begin_write().await?;
        let mut digest = Self::collect_events(&mut tx, window, None, events, None, now).await?;
        digest.elsewhere.retain(|id| Some(*id) != delivering);
        Self::adopt_orphans(&mut tx, window, &digest, None, now).await?;
        Self::record_refused(&mut tx, &window.key, &digest.refused, now).await?;
        tx.commit().await?;
        Ok(digest.taken)
    }

    async fn put_retracts(&self, key: &Key, retracts: &[Retract], now: Timestamp) -> Result<()> {
        let mut last = BTreeMap::new();
        for (identity, until_at) in retracts.iter().map(retract_identity) {
            let until = last.entry(identity).or_insert(until_at);
            *until = (*until).max(until_at);
        }
        let rows: Vec<_> = last.into_iter().map(|(identity, until_at)| RetractRow { identity, until_at }).collect();
        let mut tx = self.begin_write().await?;
        for page in rows.chunks(BATCH_EVENTS) {
            let statement =
                query(D::pick_variant(PUT_RETRACTS)).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
            statement.bind(to_json(&page)?).bind(now.as_millisecond()).execute(&mut *tx).await?;
        }
        Self::outdate_retracted(&mut tx, key, now).await?;
        Ok(tx.commit().await?)
    }

    async fn close_digest(&self, closing: CloseRequest<'_>) -> Result<CloseAnswer> {
        self.close_window(closing, AdoptionScope::All).await
    }

    async fn exclude_events(&self, closing: CloseRequest<'_>, delivering: Option<Uuid>) -> Result<CloseAnswer> {
        self.close_window(closing, AdoptionScope::TheseExceptFrom(delivering)).await
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

#[derive(Serialize)]
pub struct RetractRow<'a> {
    #[serde(flatten)]
    pub identity: RetractIdentity<'a>,
    /// `None` lets the ledger decide.
    pub until_at: Option<i64>,
}

/// By event id or by entity; the other kind's columns stay empty.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RetractIdentity<'a> {
    pub event_id: &'a str,
    pub category: &'a str,
    pub entity_type: &'a str,
    pub entity_id: &'a str,
}

pub(super) fn retract_identity(retract: &Retract) -> (RetractIdentity<'_>, Option<i64>) {
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
