//! A due window becomes a digest: what is taken over, what is set aside, and the cap of the recipient.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sqlx::{query, query_as};
use tidings_model::{
    Event, Key,
    contract::Window,
    records::{Claim, Claimed, Contents, RETRACTED, Terms, retracted},
    settings::Cap,
};
use uuid::Uuid;

use super::{Dialect, Sql, ledger::Locked, number, statements, time};
use crate::Result;

/// The digest of those events of a window whose category the recipient turned off.
fn opted_out(window: &Window) -> Uuid {
    Uuid::new_v5(&window.digest_id, b"opted out")
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn claim_window(
        &self,
        window: &Window,
        events: &[Event],
        terms: &Terms<'_>,
        now: Timestamp,
    ) -> Result<Claimed> {
        let mut tx = self.write().await?;
        let digest = Self::collect(&mut tx, window, events, None, now).await?;
        Self::adopt(&mut tx, window, &digest, None, now).await?;
        Self::sift(&mut tx, window, &digest, terms.off, now).await?;
        let (items, groups) = Self::items_and_groups(&mut tx, window.digest_id).await?;
        if digest.state == "open" {
            if let Some(cap) = terms.cap.filter(|_| items > 0)
                && let Some(until) = Self::capped(&mut tx, window, cap, now).await?
            {
                return Ok(Claimed::Capped { until });
            }
            let claim = query(statements::CLAIM_DIGEST).bind(window.digest_id.to_string()).bind(now.as_millisecond());
            claim.bind(window.due_at.as_millisecond()).execute(&mut *tx).await?;
        }
        let aside = query_as(statements::COUNT_ASIDE).bind(retracted(window).to_string());
        let (aside,): (i64,) = aside.bind(opted_out(window).to_string()).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        Ok(Claimed::Claim(Claim { items, groups, taken: digest.taken, aside: number(aside)? }))
    }

    pub(super) async fn read_preview(
        &self,
        window: &Window,
        events: &[Event],
        off: &BTreeSet<String>,
        max_groups: u32,
    ) -> Result<Contents> {
        let mut tx = self.write().await?;
        // The time is only in rows that nobody will see. Nothing is adopted: a digest may be on its way.
        let digest = Self::collect(&mut tx, window, events, None, window.due_at).await?;
        Self::sift(&mut tx, window, &digest, off, window.due_at).await?;
        let contents = Self::contents_of(&mut tx, window.digest_id, max_groups).await?;
        tx.rollback().await?;
        Ok(contents)
    }

    /// Leaves all that belongs to the window's digest, unless that is sealed or over, and nothing that does not.
    async fn sift(
        connection: &mut D::Connection,
        window: &Window,
        digest: &Locked,
        off: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<()> {
        if digest.takes_more() {
            let Key { tenant, digest_type, user } = &window.key;
            let take = query(statements::TAKE_RETURNED).bind(tenant).bind(digest_type).bind(user);
            take.bind(window.digest_id.to_string()).execute(&mut *connection).await?;
            Self::set_retracted_aside(&mut *connection, window, now).await?;
            for category in off {
                Self::set_category_aside(&mut *connection, window, category, now).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn set_retracted_aside(
        connection: &mut D::Connection,
        window: &Window,
        now: Timestamp,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let (any,): (i64,) = query_as(statements::ANY_RETRACTED).bind(id.clone()).fetch_one(&mut *connection).await?;
        if any > 0 {
            let aside = Self::open_aside(&mut *connection, window, retracted(window), RETRACTED, now).await?;
            query(statements::MOVE_RETRACTED).bind(id).bind(aside).execute(connection).await?;
        }
        Ok(())
    }

    async fn set_category_aside(
        connection: &mut D::Connection,
        window: &Window,
        category: &str,
        now: Timestamp,
    ) -> Result<()> {
        let id = window.digest_id.to_string();
        let any = query_as(statements::ANY_OF_CATEGORY).bind(id.clone()).bind(category.to_owned());
        let (any,): (i64,) = any.fetch_one(&mut *connection).await?;
        if any > 0 {
            let why = "the recipient turned their category off";
            let aside = Self::open_aside(&mut *connection, window, opted_out(window), why, now).await?;
            let statement = query(statements::MOVE_CATEGORY).bind(id).bind(aside).bind(category.to_owned());
            statement.execute(connection).await?;
        }
        Ok(())
    }

    /// A digest that ends at once and sends nothing, so that the ledger has the events with the reason (rule 1).
    async fn open_aside(
        connection: &mut D::Connection,
        window: &Window,
        aside: Uuid,
        why: &str,
        now: Timestamp,
    ) -> Result<String> {
        let statement = query(statements::ASIDE).bind(window.digest_id.to_string()).bind(aside.to_string());
        statement.bind(now.as_millisecond()).bind(why.to_owned()).execute(connection).await?;
        Ok(aside.to_string())
    }

    /// Until when the recipient has had as many digests as they get; `None`: one more is fine. Their row is ours from here
    /// on, so that no other key of theirs counts before this one is written.
    async fn capped(
        connection: &mut D::Connection,
        window: &Window,
        cap: Cap,
        now: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let Key { tenant, user, .. } = &window.key;
        query(D::LOCK_RECIPIENT).bind(tenant).bind(user).execute(&mut *connection).await?;
        let within = SignedDuration::try_from(cap.within).unwrap_or(SignedDuration::MAX);
        let since = now.saturating_sub(within).unwrap_or(Timestamp::MIN);
        let statement = query_as(statements::CLAIMED_SINCE).bind(tenant).bind(user).bind(since.as_millisecond());
        let statement = statement.bind(window.digest_id.to_string()).bind(i64::from(cap.most));
        let claimed: Vec<(i64,)> = statement.fetch_all(connection).await?;
        match claimed.last() {
            Some((oldest,)) if claimed.len() as u64 >= u64::from(cap.most) => {
                Ok(Some(time(*oldest)?.saturating_add(within).unwrap_or(Timestamp::MAX)))
            }
            _ => Ok(None),
        }
    }
}
