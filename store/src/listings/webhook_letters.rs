//! Dead letters of webhooks as operators list and read them.

use sqlx::{query, query_as};
use tidings_model::records::{
    Cursor, KeptWebhookLetter, Listed, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace, WebhookLetterRecord,
};

use super::dead_letters::emitted;
use crate::{
    Result,
    sql::{
        Sql,
        columns::{column, record},
        dialect::Dialect,
    },
};

macro_rules! letter_columns {
    () => {
        "SELECT relay, sha256, reason, size, buried_at, whole, emitted_at, emitted_by FROM webhook_dead_letters "
    };
}

/// Buried from `$1` until before `$2`. After the time `$3`, the relay `$4` and the SHA-256 `$5`; `$6` limit.
pub const WEBHOOK_LETTERS: &str = concat!(
    letter_columns!(),
    "WHERE buried_at >= $1 AND buried_at < $2 AND (buried_at, relay, sha256) < ($3, $4, $5)
     ORDER BY buried_at DESC, relay DESC, sha256 DESC LIMIT $6"
);

/// `$1` relay, and `$2` to before `$3` the SHA-256.
const ONE: &str =
    concat!(letter_columns!(), "WHERE relay = $1 AND sha256 >= $2 AND sha256 < $3 ORDER BY sha256 LIMIT 1");

/// Relay, SHA-256.
const HEAD: &str = "SELECT head FROM webhook_dead_letters WHERE relay = $1 AND sha256 = $2";

impl<D: Dialect> Sql<D> {
    pub(super) async fn webhook_letters(
        &self,
        filter: &WebhookLetterFilter,
    ) -> Result<Listed<WebhookLetterRecord, WebhookLetterPlace>> {
        let WebhookLetterFilter { since, until, page } = filter;
        let after = page.after.as_ref().map(|Cursor((at, relay, sha256))| (at.as_millisecond(), relay, sha256));
        let (after_at, after_relay, after_sha256) = after.map_or_else(
            || (i64::MAX, String::new(), String::new()),
            |(at, relay, sha256)| (at, relay.clone(), sha256.clone()),
        );
        let rows = query(WEBHOOK_LETTERS)
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(after_at)
            .bind(after_relay)
            .bind(after_sha256)
            .bind(page.rows_to_read());
        let rows = rows.try_map(Self::to_record).fetch_all(&mut *self.reader.acquire().await?).await?;
        Ok(page.listed(rows, |last: &WebhookLetterRecord| (last.buried_at, last.relay.clone(), last.sha256.clone())))
    }

    pub(super) async fn webhook_letter(&self, id: &WebhookLetterId) -> Result<Option<KeptWebhookLetter>> {
        let mut connection = self.reader.acquire().await?;
        let Some(record) = Self::webhook_letter_record(&mut *connection, id).await? else { return Ok(None) };
        let head =
            query_as(HEAD).bind(record.relay.clone()).bind(record.sha256.clone()).fetch_optional(&mut *connection);
        let head: Option<(String,)> = head.await?;
        Ok(head.map(|(head,)| KeptWebhookLetter { record, head }))
    }

    pub(crate) async fn webhook_letter_record(
        connection: &mut D::Connection,
        WebhookLetterId { relay, digits }: &WebhookLetterId,
    ) -> Result<Option<WebhookLetterRecord>> {
        let one = query(ONE).bind(relay.clone()).bind(digits.clone()).bind(format!("{digits}g"));
        Ok(one.try_map(Self::to_record).fetch_optional(connection).await?)
    }
}

record!(row => WebhookLetterRecord {
    id: WebhookLetterId::new(&column::<_, String>(row, "relay")?, &column::<_, String>(row, "sha256")?),
    relay,
    buried_at,
    reason,
    size,
    sha256,
    whole,
    emitted: emitted::<D>(row)?,
});
