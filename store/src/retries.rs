//! Retries for digests and single messages (rule 30).

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    message::contract::{RetryInput, RetryResult},
    records::{AuditActor, DigestRecord, DigestState, EventExclusion},
    step::{ReopenAnswer, ReopenInput},
    window::{DigestOutcome, Window, WindowEnd},
};

use crate::{
    Result,
    digest::{DIGEST, LOCK_MESSAGE},
    sql::{SqlStore, calls, dialect::Dialect},
};

calls! {
    /// Both methods fence the attempt under way, and audit the command once (rule 30). They refuse if a final
    /// end stays, if nothing is left to send, or if the recipient may already have the message, unless the
    /// command allows a second copy.
    pub trait RetryStore {
        /// Reopens a digest that is open, or ended as dropped, failed, ambiguous or unknown. The digest keeps
        /// its id and events. An unclaimed window ends as skipped if all its events are retracted.
        #[span(key = %input.key, digest = %input.reopen.digest_id)]
        async fn reopen_digest(&self, input: &ReopenInput, now: Timestamp) -> Result<ReopenAnswer>;

        /// Queues a single message again if it failed, was cancelled, is ambiguous or still open.
        #[span(key = %input.key)]
        async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<RetryResult>;
    }
}

/// Attempts after which the recipient may have the email; those refused after the dot do not count.
pub const MAYBE_DELIVERED: &str = "
SELECT number FROM attempts
WHERE message = $1 AND (class = 'ambiguous' OR past_the_dot_at IS NOT NULL AND class IN ('fenced', 'cancelled')) LIMIT 1";

pub const REOPEN_DIGEST: &str = "
UPDATE digests SET closed_at = NULL, outcome = NULL, why = NULL, returned_at = NULL, event_count = NULL,
    claimed_at = COALESCE(claimed_at, $2), slot_at = NULL,
    state = CASE WHEN EXISTS (SELECT 1 FROM messages WHERE id = $1) THEN 'rendered' ELSE 'claimed' END
WHERE digest_id = $1";

/// Also fences a first attempt not recorded yet. `$2`: attempts past the dot may be repeated.
pub const REOPEN_MESSAGE: &str = "
UPDATE messages SET state = 'queued', closed_at = NULL, why = NULL, epoch = epoch + 1,
    may_repeat = CASE WHEN $2 THEN (SELECT COALESCE(MAX(number), 0) FROM attempts WHERE message = $1) ELSE may_repeat END
WHERE id = $1";

pub const TAKE_BACK_EVENTS: &str =
    "UPDATE events SET returned_at = NULL WHERE digest_id = $1 AND returned_at IS NOT NULL";

pub const WAS_RETURNED: &str = "SELECT returned_at FROM digests WHERE digest_id = $1 AND returned_at IS NOT NULL";

pub const WAS_SENT: &str = "SELECT sent_at FROM digests WHERE digest_id = $1 AND sent_at IS NOT NULL";

pub const WAS_ERASED: &str = "SELECT erased_at FROM messages WHERE id = $1 AND erased_at IS NOT NULL
UNION SELECT erased_at FROM digests WHERE digest_id = $1 AND erased_at IS NOT NULL";

pub const HAS_EVENTS: &str = "SELECT recorded_at FROM events WHERE digest_id = $1 LIMIT 1";

pub const WAS_PURGED: &str = "SELECT purged_at FROM digests WHERE digest_id = $1 AND purged_at IS NOT NULL";

impl<D: Dialect> SqlStore<D> {
    async fn reopen_digest(&self, input: &ReopenInput, now: Timestamp) -> Result<ReopenAnswer> {
        let ReopenInput { asked_at, key, reopen } = input;
        let id = reopen.digest_id.to_string();
        let mut tx = self.begin_write().await?;
        // Lock before reading: another transaction may change it in between.
        let was_open =
            Self::lock_if_any(&mut tx, reopen.digest_id).await?.is_some_and(|digest| digest.state == DigestState::Open);
        let digest = query(DIGEST).bind(id.clone()).try_map(Self::to_record).fetch_optional(&mut *tx).await?;
        let Some(digest) = digest.filter(|digest: &DigestRecord| digest.key == *key) else {
            return Ok(ReopenAnswer::Refused { why: "the ledger has no such digest of this key".to_owned() });
        };
        query(D::pick_variant(LOCK_MESSAGE)).bind(id.clone()).execute(&mut *tx).await?;
        Self::fence_attempt(&mut tx, &id, now).await?;
        if let Some(why) = Self::reopen_refusal(&mut tx, &digest, reopen.may_duplicate).await? {
            return Ok(ReopenAnswer::Refused { why });
        }
        query(TAKE_BACK_EVENTS).bind(id.clone()).execute(&mut *tx).await?;
        query(REOPEN_DIGEST).bind(id.clone()).bind(now.as_millisecond()).execute(&mut *tx).await?;
        query(REOPEN_MESSAGE).bind(id.clone()).bind(reopen.may_duplicate).execute(&mut *tx).await?;
        let DigestRecord { digest_id, opened_at, due_at, .. } = digest;
        let window = Window { key: key.clone(), digest_id, opened_at, due_at };
        if (digest.closed.is_some() || was_open)
            && Self::lock_digest(&mut tx, digest_id).await?.state == DigestState::Claimed
        {
            // No email has these events yet, so we can exclude ones retracted since. A digest left empty must
            // end below, because it may already be open again after a lost reply.
            Self::exclude_retracted(&mut tx, &window, now).await?;
        }
        let (items, groups) = Self::items_and_lines(&mut tx, digest_id).await?;
        if items == 0 {
            if was_open {
                let closed = WindowEnd {
                    outcome: DigestOutcome::Skipped,
                    why: EventExclusion::Retracted.ledger_reason().to_owned(),
                };
                Self::apply_end(&mut tx, digest_id, &closed, false, now).await?;
                Self::audit_close(&mut tx, key, digest_id, &closed, AuditActor::Tidings, now).await?;
                tx.commit().await?;
            }
            let why = "it cannot be sent again: its events were taken back".to_owned();
            return Ok(ReopenAnswer::Refused { why });
        }
        let entry = reopen.order.audit_entry("reopen", *asked_at);
        Self::audit_once(&mut tx, key, Some(digest_id), &entry).await?;
        tx.commit().await?;
        Ok(ReopenAnswer::Claimed { window, items, groups })
    }

    async fn retry_message(&self, input: &RetryInput, now: Timestamp) -> Result<RetryResult> {
        let RetryInput { asked_at, key, retry } = input;
        let id = key.message_id().to_string();
        let mut tx = self.begin_write().await?;
        let Some(locked) = Self::lock_single(&mut tx, key).await? else {
            return Ok(RetryResult::Refused { why: format!("the outbox has no message {key}") });
        };
        Self::fence_attempt(&mut tx, &id, now).await?;
        let why = if locked.sent {
            Some("the relay took it".to_owned())
        } else if Self::finds_row(&mut tx, WAS_ERASED, key.message_id()).await? {
            Some("its recipient was erased".to_owned())
        } else {
            locked.closed.as_ref().and_then(message_over)
        };
        if let Some(why) = why {
            return Ok(RetryResult::Refused { why });
        }
        if !retry.may_duplicate && Self::finds_row(&mut tx, MAYBE_DELIVERED, key.message_id()).await? {
            let why = "an attempt was past the dot, so the recipient may have the mail; --may-duplicate sends it again";
            return Ok(RetryResult::Refused { why: why.to_owned() });
        }
        query(REOPEN_MESSAGE).bind(id).bind(retry.may_duplicate).execute(&mut *tx).await?;
        let entry = retry.order.audit_entry("retry", *asked_at);
        Self::audit_single(&mut tx, key, entry).await?;
        tx.commit().await?;
        Ok(RetryResult::Queued)
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn reopen_refusal(
        connection: &mut D::Connection,
        digest: &DigestRecord,
        may_duplicate: bool,
    ) -> Result<Option<String>> {
        let id = digest.digest_id;
        if let Some(why) = final_end(digest) {
            return Ok(Some(why));
        }
        if Self::finds_row(&mut *connection, WAS_SENT, id).await? {
            return Ok(Some("it was sent: the relay took its mail after all".to_owned()));
        }
        if Self::finds_row(&mut *connection, WAS_ERASED, id).await? {
            return Ok(Some("it cannot be sent again: its recipient was erased".to_owned()));
        }
        if Self::finds_row(&mut *connection, WAS_PURGED, id).await? {
            let why = "its events or its mail were too old to be kept, and upkeep deleted them";
            return Ok(Some(format!("it cannot be sent again: {why}")));
        }
        if !Self::finds_row(&mut *connection, HAS_EVENTS, id).await? {
            let returned = Self::finds_row(&mut *connection, WAS_RETURNED, id).await?;
            let why = if returned { "its events went on to a later digest" } else { "it has no events" };
            return Ok(Some(format!("it cannot be sent again: {why}")));
        }
        if !may_duplicate && Self::finds_row(&mut *connection, MAYBE_DELIVERED, id).await? {
            let why = "an attempt was past the dot, so the recipient may have the mail; --may-duplicate sends it again";
            return Ok(Some(why.to_owned()));
        }
        Ok(None)
    }
}

/// Why this end is final, or `None`.
fn final_end(digest: &DigestRecord) -> Option<String> {
    let closed = digest.closed.as_ref()?;
    match closed.outcome {
        DigestOutcome::Sent | DigestOutcome::Skipped | DigestOutcome::Suppressed | DigestOutcome::Throttled => {
            let why = if closed.why.is_empty() { String::new() } else { format!(" ({})", closed.why) };
            let done = if closed.outcome == DigestOutcome::Sent {
                ""
            } else {
                "; emit its events again under new ids instead"
            };
            Some(format!("it was {}{why}{done}", closed.outcome.name()))
        }
        DigestOutcome::Dropped | DigestOutcome::Failed | DigestOutcome::Ambiguous | DigestOutcome::Unknown => None,
    }
}

/// Why this end is final, or `None`.
fn message_over(closed: &WindowEnd) -> Option<String> {
    match closed.outcome {
        DigestOutcome::Sent => Some("it was sent".to_owned()),
        DigestOutcome::Suppressed | DigestOutcome::Skipped | DigestOutcome::Throttled => {
            Some(format!("it was {}: {}", closed.outcome.name(), closed.why))
        }
        DigestOutcome::Dropped | DigestOutcome::Failed | DigestOutcome::Ambiguous | DigestOutcome::Unknown => None,
    }
}
