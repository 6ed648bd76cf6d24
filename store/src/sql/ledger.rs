//! The life of a digest in the ledger: opened by its first page, claimed, closed.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Event, Key,
    contract::{Closed, Ending, Outcome, Window},
    limits::BATCH_EVENTS,
    records::{AuditEntry, Closing, MessageState},
};
use uuid::Uuid;

use super::{
    Dialect, Sql,
    columns::row,
    json, no_nul, number,
    rows::{self, EventRow},
    statements,
};
use crate::{Error, Result};

/// A digest's row, ours until the transaction ends.
pub(super) struct Locked {
    pub state: String,
    pub closed: Option<Closed>,
    /// See [`Ending::taken`].
    pub taken: u64,
    /// Digests without an end that have some of the events.
    pub elsewhere: BTreeSet<Uuid>,
}

/// What an end takes over of digests that were left behind and have some of its events.
pub(super) enum Takes {
    /// All of their events.
    All,
    /// Its own events, and none from this digest, which is on its way.
    TheseFromAllBut(Option<Uuid>),
}

row! {
/// Columns of [`LOCK_DIGEST`](Dialect::LOCK_DIGEST).
struct LockedRow {
    state: String,
    outcome: Option<Outcome>,
    why: Option<String>,
}
}

row! {
/// Columns of [`RECORDED_EVENTS`](Dialect::RECORDED_EVENTS).
struct RecordedRow {
    event_id: String,
    digest_id: Uuid,
    state: String,
}
}

impl Locked {
    fn new(LockedRow { state, outcome, why }: LockedRow) -> Self {
        Self { state, closed: rows::closed(outcome, why), taken: 0, elsewhere: BTreeSet::new() }
    }

    /// Whether it has neither a message nor an end.
    pub fn takes_more(&self) -> bool {
        ["open", "claimed"].contains(&self.state.as_str())
    }
}

impl<D: Dialect> Sql<D> {
    /// Opens the window's digest unless the ledger has it, and writes those events that it has not.
    ///
    /// A message seals the digest, and so does an end, unless it is the `end` that the caller is about to record. A call
    /// whose answer was lost may be repeated after that with more events than it had. Those at the end are not taken, and
    /// the caller keeps them for its next window, which may be the one that the lost task had come to: for one that has an
    /// end, an event in a digest without one is not there yet.
    pub(super) async fn collect(
        connection: &mut D::Connection,
        window: &Window,
        events: &[Event],
        end: Option<&Closed>,
        now: Timestamp,
    ) -> Result<Locked> {
        let Window { key, digest_id, opened_at, due_at } = window;
        let row = query_as(statements::OPEN_DIGEST)
            .bind(&key.tenant)
            .bind(&key.digest_type)
            .bind(&key.user)
            .bind(digest_id.to_string())
            .bind(opened_at.as_millisecond())
            .bind(due_at.as_millisecond())
            .fetch_one(&mut *connection)
            .await?;
        let mut locked = Locked::new(row);
        let is_over = locked.closed.is_some() && locked.closed.as_ref() != end;
        for page in events.chunks(BATCH_EVENTS) {
            if !is_over {
                let rows: Vec<_> = page.iter().map(EventRow::new).collect::<Result<_>>()?;
                let statement = query(D::INSERT_EVENTS).bind(digest_id.to_string()).bind(json(&rows)?);
                let done = statement.bind(now.as_millisecond()).execute(&mut *connection).await?;
                if usize::try_from(D::rows(&done)).is_ok_and(|inserted| inserted == page.len()) {
                    locked.taken += page.len() as u64;
                    continue;
                }
            }
            let ids: Vec<_> = page.iter().map(|event| &event.event_id).collect();
            let recorded = Self::recorded(connection, key, json(&ids)?).await?;
            let has_an_end = |state: &str| state == "closed";
            let others = recorded.values().filter(|(digest, state)| digest != digest_id && !has_an_end(state));
            locked.elsewhere.extend(others.map(|(digest, _)| *digest));
            let is_open = locked.closed.is_none();
            let is_there = |id: &&&String| recorded.get(**id).is_some_and(|(_, state)| is_open || has_an_end(state));
            let taken = ids.iter().take_while(is_there).count();
            locked.taken += taken as u64;
            if taken < page.len() {
                break;
            }
        }
        Ok(locked)
    }

    /// Takes over what was left behind ([`Store::stash`](crate::Store::stash)), or `only` these events of it.
    pub(super) async fn adopt(
        connection: &mut D::Connection,
        window: &Window,
        digest: &Locked,
        only: Option<&[Event]>,
        now: Timestamp,
    ) -> Result<()> {
        let why = format!("left behind; its events went on to digest {}", window.digest_id);
        let closed = Closed { outcome: Outcome::Skipped, why };
        for id in digest.elsewhere.iter().filter(|_| only.is_some() || digest.takes_more()) {
            // Locked first, and asked then.
            Self::lock_message(&mut *connection, *id).await?;
            let left = query(statements::WAS_LEFT_BEHIND).bind(id.to_string()).bind(window.opened_at.as_millisecond());
            if left.fetch_optional(&mut *connection).await?.is_none() {
                continue;
            }
            match only {
                None => {
                    let adopt = query(statements::ADOPT_EVENTS).bind(id.to_string()).bind(window.digest_id.to_string());
                    adopt.execute(&mut *connection).await?;
                }
                // Its mail tells of all of them.
                Some(_) if !Self::lock(&mut *connection, *id).await?.takes_more() => continue,
                Some(events) => {
                    for event in events {
                        let adopt = query(statements::ADOPT_EVENT).bind(id.to_string());
                        let adopt = adopt.bind(window.digest_id.to_string()).bind(event.event_id.clone());
                        adopt.execute(&mut *connection).await?;
                    }
                    if Self::items_and_groups(&mut *connection, *id).await? != (0, 0) {
                        continue;
                    }
                }
            }
            Self::end(&mut *connection, *id, &closed, false, now).await?;
            Self::audit_close(&mut *connection, &window.key, *id, &closed, "", now).await?;
        }
        Ok(())
    }

    /// The audit trail's entry of an end that did not come from a delivery; `by`: see [`Closing::by`].
    pub(super) async fn audit_close(
        connection: &mut D::Connection,
        key: &Key,
        digest_id: Uuid,
        closed: &Closed,
        by: &str,
        now: Timestamp,
    ) -> Result<()> {
        let actor = if by.is_empty() { "tidings" } else { by }.to_owned();
        let why = format!("{}: {}", closed.outcome.name(), closed.why);
        let entry = AuditEntry { at: now, actor, action: "close".into(), why };
        Self::audit(connection, key, Some(digest_id), &entry).await
    }

    pub(super) async fn lock(connection: &mut D::Connection, digest_id: Uuid) -> Result<Locked> {
        let locked = Self::lock_if_any(connection, digest_id).await?;
        locked.ok_or_else(|| Error::Broken(format!("digest {digest_id} is not in the ledger")))
    }

    pub(super) async fn lock_if_any(connection: &mut D::Connection, digest_id: Uuid) -> Result<Option<Locked>> {
        let row = query_as(D::LOCK_DIGEST).bind(digest_id.to_string()).fetch_optional(connection).await?;
        Ok(row.map(Locked::new))
    }

    pub(super) async fn items_and_groups(connection: &mut D::Connection, digest_id: Uuid) -> Result<(u64, u64)> {
        let statement = query_as(statements::ITEMS_AND_GROUPS).bind(digest_id.to_string());
        let (items, groups): (i64, i64) = statement.fetch_one(connection).await?;
        Ok((number(items)?, number(groups)?))
    }

    pub(super) async fn close_window(&self, closing: Closing<'_>, takes: Takes) -> Result<Ending> {
        let Closing { window, events, closed, by, return_events, now } = closing;
        let mut tx = self.write().await?;
        let mut digest = Self::collect(&mut tx, window, events, Some(closed), now).await?;
        let only = match takes {
            Takes::All => None,
            Takes::TheseFromAllBut(delivering) => {
                digest.elsewhere.retain(|id| Some(*id) != delivering);
                Some(events)
            }
        };
        // What an earlier call returned is on its way to the next claim.
        if !return_events || digest.closed.is_none() {
            Self::adopt(&mut tx, window, &digest, only, now).await?;
        }
        let first = if let Some(first) = digest.closed {
            first
        } else {
            query(D::LOCK_MESSAGE).bind(window.digest_id.to_string()).execute(&mut *tx).await?;
            let closed = Self::unless_past_the_dot(&mut tx, window.digest_id, closed, now).await?;
            Self::end(&mut tx, window.digest_id, &closed, return_events, now).await?;
            Self::audit_close(&mut tx, &window.key, window.digest_id, &closed, by, now).await?;
            closed
        };
        tx.commit().await?;
        Ok(Ending { closed: first, taken: digest.taken })
    }

    /// Fences the attempts of a message that is locked. Where one was past the dot nobody knows whether the recipient has the
    /// mail, and the end says so (rule 31).
    pub(super) async fn unless_past_the_dot(
        connection: &mut D::Connection,
        message: Uuid,
        closed: &Closed,
        now: Timestamp,
    ) -> Result<Closed> {
        let id = message.to_string();
        query(statements::FENCE).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *connection).await?;
        let (_, ambiguous) = Self::earlier(connection, &id, 0).await?;
        if ambiguous == 0 {
            return Ok(closed.clone());
        }
        Ok(Closed { outcome: Outcome::Ambiguous, why: format!("{}, past the dot of an attempt", closed.why) })
    }

    /// Ends a message that is locked and has no end, and the digest that it is of, or a digest that has none yet: whatever
    /// there is of this id. Only a digest has events to return.
    pub(super) async fn end(
        connection: &mut D::Connection,
        id: Uuid,
        closed: &Closed,
        return_events: bool,
        now: Timestamp,
    ) -> Result<()> {
        let id = id.to_string();
        for (statement, name) in [
            (statements::CLOSE_DIGEST, closed.outcome.name()),
            (statements::CLOSE_MESSAGE, MessageState::after(closed.outcome).name()),
        ] {
            let close = query(statement).bind(id.clone()).bind(name.to_owned()).bind(no_nul(&closed.why));
            close.bind(now.as_millisecond()).execute(&mut *connection).await?;
        }
        if return_events {
            for statement in [statements::RETURN_DIGEST, statements::RETURN_EVENTS] {
                query(statement).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *connection).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn read_known(&self, key: &Key, event_ids: &[String], open: Option<Uuid>) -> Result<Vec<String>> {
        let recorded = Self::recorded(&mut *self.reader.acquire().await?, key, json(&event_ids)?).await?;
        let known =
            |id: &&String| recorded.get(*id).is_some_and(|(digest, state)| state == "closed" || Some(*digest) == open);
        Ok(event_ids.iter().filter(known).cloned().collect())
    }

    /// Those of the ids (a JSON list) that the key's ledger has, with their digest and its state.
    async fn recorded(
        connection: &mut D::Connection,
        key: &Key,
        event_ids: String,
    ) -> Result<BTreeMap<String, (Uuid, String)>> {
        let statement = query_as(D::RECORDED_EVENTS).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<RecordedRow> = statement.bind(event_ids).fetch_all(connection).await?;
        Ok(rows.into_iter().map(|row| (row.event_id, (row.digest_id, row.state))).collect())
    }
}
