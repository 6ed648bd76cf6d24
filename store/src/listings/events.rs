//! The events of one digest, and those that its claim excluded.

use sqlx::query;
use tidings_model::records::{Cursor, DigestEvent, DigestRecord, EventPlace, Exclusion, Listed, Page};

use crate::{
    Result,
    sql::{Sql, columns::record, dialect::Dialect},
};

/// `$1` digest, after the time `$2` and the id `$3`, `$4` limit; `$5` to `$9` the digests of its excluded events.
pub const EVENTS: &str = "
SELECT e.event_id, e.category, e.entity_type, e.occurred_at, e.recorded_at, e.urgent, e.returned_from,
       CASE WHEN e.digest_id = $1 THEN NULL ELSE COALESCE(d.why, '') END AS excluded
FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.digest_id IN ($1, $5, $6, $7, $8, $9) AND (e.occurred_at, e.event_id) > ($2, $3)
ORDER BY e.occurred_at, e.event_id LIMIT $4";

impl<D: Dialect> Sql<D> {
    pub(super) async fn digest_events(
        &self,
        digest: &DigestRecord,
        page: &Page<EventPlace>,
    ) -> Result<Listed<DigestEvent, EventPlace>> {
        let window = digest.window();
        let after = page.after.as_ref().map(|Cursor((at, id))| (at.as_millisecond(), id.clone()));
        let (after_at, after_id) = after.unwrap_or((i64::MIN, String::new()));
        let rows =
            query(EVENTS).bind(digest.digest_id.to_string()).bind(after_at).bind(after_id).bind(page.rows_to_read());
        let rows = Exclusion::ALL.iter().fold(rows, |rows, reason| rows.bind(reason.digest_id(&window).to_string()));
        let rows = rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(page.listed(rows, |last: &DigestEvent| (last.occurred_at, last.event_id.clone())))
    }
}

record!(row => DigestEvent {
    event_id, category, entity_type, occurred_at, recorded_at, urgent, excluded, returned_from,
});
