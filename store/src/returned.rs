//! Events that failed digests returned to their key (rule 25).

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{Event, Key, step::Returned, window::Window};
use uuid::Uuid;

use crate::{
    Result,
    digest::LockedDigest,
    events::{RecordedEventRow, recorded_event},
    sql::{Sql, columns::row, dialect::Dialect},
};

/// `$4` digest, `$5` also if the digest has no other event.
pub const TAKE_RETURNED: &str = "
UPDATE events SET returned_from = digest_id, digest_id = $4, returned_at = NULL
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
  AND ($5 OR EXISTS (SELECT 1 FROM events own WHERE own.digest_id = $4))";

pub const RETURNED: &str = "
SELECT digest_id, COUNT(*) AS items, MIN(returned_at) AS first_at FROM events
WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
GROUP BY digest_id";

pub const RETURNED_EVENT: &str = concat!(
    recorded_event!(),
    " WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND returned_at IS NOT NULL
ORDER BY returned_at, event_id LIMIT 1"
);

impl<D: Dialect> Sql<D> {
    /// Moves the events that the key's failed digests returned to the window's digest. A call whose events are all in digests
    /// without an end may be that of a run that is gone, and takes none.
    pub(crate) async fn take_returned(
        connection: &mut D::Connection,
        window: &Window,
        digest: &LockedDigest,
    ) -> Result<()> {
        let Key { tenant, digest_type, user } = &window.key;
        let take = query(TAKE_RETURNED).bind(tenant).bind(digest_type).bind(user);
        take.bind(window.digest_id.to_string()).bind(digest.elsewhere.is_empty()).execute(connection).await?;
        Ok(())
    }

    pub(crate) async fn returned(&self, key: &Key) -> Result<Option<Returned>> {
        let statement = query_as(RETURNED).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let rows: Vec<ReturnedRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
        let at = rows.iter().map(|row| row.first_at).min();
        let digests = rows.into_iter().map(|row| (row.digest_id, row.items)).collect();
        Ok(at.map(|at| Returned { at, digests }))
    }

    pub(crate) async fn returned_event(&self, key: &Key) -> Result<Option<Event>> {
        let statement = query_as(RETURNED_EVENT).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let row: Option<RecordedEventRow> = statement.fetch_optional(&mut *self.reader.acquire().await?).await?;
        Ok(row.map(Event::from))
    }
}

row! {
/// Columns of [`RETURNED`].
pub struct ReturnedRow {
    digest_id: Uuid,
    items: u64,
    first_at: Timestamp,
}
}
