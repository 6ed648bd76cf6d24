//! A digest that came to nothing is taken up again, under its id and with the events that it has (rule 30).

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    contract::{Closed, Outcome, ReopenInput, Resumed, Window},
    records::{AuditEntry, DigestRecord, RETRACTED},
};
use uuid::Uuid;

use super::{Dialect, Sql, rows::DigestRow, statements};
use crate::Result;

impl<D: Dialect> Sql<D> {
    pub(super) async fn reopen_digest(&self, input: &ReopenInput, now: Timestamp) -> Result<Resumed> {
        let ReopenInput { asked_at, key, reopen } = input;
        let id = reopen.digest_id.to_string();
        let mut tx = self.write().await?;
        // Locked first, and read then.
        let was_open = Self::lock_if_any(&mut tx, reopen.digest_id).await?.is_some_and(|digest| digest.state == "open");
        let row: Option<DigestRow> = query_as(statements::DIGEST).bind(id.clone()).fetch_optional(&mut *tx).await?;
        let Some(digest) = row.map(DigestRecord::from).filter(|digest| digest.key == *key) else {
            return Ok(Resumed::Refused { why: format!("{key} has no digest {id}") });
        };
        query(D::LOCK_MESSAGE).bind(id.clone()).execute(&mut *tx).await?;
        query(statements::FENCE).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        if let Some(why) = Self::not_again(&mut tx, &digest, reopen.may_duplicate).await? {
            return Ok(Resumed::Refused { why });
        }
        query(statements::TAKE_BACK_EVENTS).bind(id.clone()).execute(&mut *tx).await?;
        query(statements::REOPEN_DIGEST).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        query(statements::REOPEN_MESSAGE).bind(id.clone()).bind(reopen.may_duplicate).execute(&mut *tx).await?;
        let DigestRecord { digest_id, opened_at, due_at, .. } = digest;
        let window = Window { key: key.clone(), digest_id, opened_at, due_at };
        if (digest.closed.is_some() || was_open) && Self::lock(&mut tx, digest_id).await?.state == "claimed" {
            // There is no mail yet that tells of what was taken back since. Asked again after a lost answer the digest has no
            // end, and must not be left without one.
            Self::set_retracted_aside(&mut tx, &window, now).await?;
        }
        let (items, groups) = Self::items_and_groups(&mut tx, digest_id).await?;
        if items == 0 {
            if was_open {
                let closed = Closed { outcome: Outcome::Skipped, why: RETRACTED.to_owned() };
                Self::end(&mut tx, digest_id, &closed, false, now).await?;
                Self::audit_close(&mut tx, key, digest_id, &closed, "", now).await?;
                tx.commit().await?;
            }
            let why = format!("digest {id} cannot be sent again: its events were taken back");
            return Ok(Resumed::Refused { why });
        }
        let order = &reopen.order;
        let entry =
            AuditEntry { at: *asked_at, actor: order.by.clone(), action: "reopen".into(), why: order.why.clone() };
        Self::audit_once(&mut tx, key, Some(digest_id), &entry).await?;
        tx.commit().await?;
        Ok(Resumed::Claimed { window, items, groups })
    }

    /// Why a digest must stay as it is. No attempt of it is under way.
    async fn not_again(
        connection: &mut D::Connection,
        digest: &DigestRecord,
        may_duplicate: bool,
    ) -> Result<Option<String>> {
        let id = digest.digest_id;
        if let Some(why) = over(digest) {
            return Ok(Some(why));
        }
        if Self::has(&mut *connection, statements::WAS_SENT, id).await? {
            return Ok(Some(format!("digest {id} was sent: the relay took its mail after all")));
        }
        if Self::has(&mut *connection, statements::WAS_PURGED, id).await? {
            let why = "its events or its mail were too old to be kept, and upkeep deleted them";
            return Ok(Some(format!("digest {id} cannot be sent again: {why}")));
        }
        if digest.items == 0 {
            let returned = Self::has(&mut *connection, statements::WAS_RETURNED, id).await?;
            let why = if returned { "its events went on to a later digest" } else { "it has no events" };
            return Ok(Some(format!("digest {id} cannot be sent again: {why}")));
        }
        if !may_duplicate && Self::has(&mut *connection, statements::MAYBE_DELIVERED, id).await? {
            let why = "an attempt was past the dot, so the recipient may have the mail; --may-duplicate sends it again";
            return Ok(Some(why.to_owned()));
        }
        Ok(None)
    }

    /// Whether the statement has an answer about the digest, or the message.
    pub(super) async fn has(connection: &mut D::Connection, statement: &'static str, digest_id: Uuid) -> Result<bool> {
        let found: Option<(i64,)> = query_as(statement).bind(digest_id.to_string()).fetch_optional(connection).await?;
        Ok(found.is_some())
    }
}

/// The ends that are not to be undone.
fn over(digest: &DigestRecord) -> Option<String> {
    let closed = digest.closed.as_ref()?;
    match closed.outcome {
        Outcome::Sent | Outcome::Skipped | Outcome::Suppressed | Outcome::Throttled => {
            let why = if closed.why.is_empty() { String::new() } else { format!(" ({})", closed.why) };
            let done =
                if closed.outcome == Outcome::Sent { "" } else { "; emit its events again under new ids instead" };
            Some(format!("digest {} was {}{why}{done}", digest.digest_id, closed.outcome.name()))
        }
        Outcome::Dropped | Outcome::Failed | Outcome::Ambiguous | Outcome::Unknown => None,
    }
}
