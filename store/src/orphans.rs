//! Orphaned digests: a later window adopts their events.

use jiff::Timestamp;
use sqlx::query;
use tidings_model::{
    Event,
    records::Actor,
    window::{Closed, Outcome, Window},
};

use crate::{
    Result,
    digest::LockedDigest,
    sql::{Sql, dialect::Dialect},
};

/// Finds the locked digest `$1` if it is orphaned for a window that opened at `$2`.
pub const IS_ORPHANED: &str = "
SELECT 1 FROM digests WHERE digest_id = $1 AND opened_at < $2 AND state <> 'closed'
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE message = $1)";

pub const ADOPT_EVENTS: &str = "UPDATE events SET returned_from = digest_id, digest_id = $2 WHERE digest_id = $1";

pub const ADOPT_EVENT: &str =
    concat!("UPDATE events SET returned_from = digest_id, digest_id = $2 ", "WHERE digest_id = $1 AND event_id = $3");

impl<D: Dialect> Sql<D> {
    /// Adoption over what was left behind ([`Store::stash`](crate::Store::stash)), or `only` these events of it.
    pub(crate) async fn adopt_orphans(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
        only: Option<&[Event]>,
        now: Timestamp,
    ) -> Result<()> {
        let why = format!("left behind; its events went on to digest {}", window.digest_id);
        let closed = Closed { outcome: Outcome::Skipped, why };
        for id in digest.elsewhere.iter().filter(|_| only.is_some() || digest.state.takes_events()) {
            // LockedDigest first, and asked then.
            Self::lock_message(&mut *connection, *id).await?;
            let left = query(IS_ORPHANED).bind(id.to_string()).bind(window.opened_at.as_millisecond());
            if left.fetch_optional(&mut *connection).await?.is_none() {
                continue;
            }
            match only {
                None => {
                    let adopt = query(ADOPT_EVENTS).bind(id.to_string()).bind(window.digest_id.to_string());
                    adopt.execute(&mut *connection).await?;
                }
                // Its mail tells of all of them.
                Some(_) if !Self::lock(&mut *connection, *id).await?.state.takes_events() => continue,
                Some(events) => {
                    for event in events {
                        let adopt = query(ADOPT_EVENT).bind(id.to_string());
                        let adopt = adopt.bind(window.digest_id.to_string()).bind(event.event_id.clone());
                        adopt.execute(&mut *connection).await?;
                    }
                    if Self::items_and_groups(&mut *connection, *id).await? != (0, 0) {
                        continue;
                    }
                }
            }
            Self::end(&mut *connection, *id, &closed, false, now).await?;
            Self::audit_close(&mut *connection, &window.key, *id, &closed, Actor::Tidings, now).await?;
        }
        Ok(())
    }
}
