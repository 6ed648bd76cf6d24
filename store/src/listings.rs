use sqlx::query;
use tidings_model::records::{
    AuditFilter, AuditPlace, AuditRecord, DeadLetterFilter, DeadLetterId, DeadLetterPlace, DeadLetterRecord,
    DigestEvent, DigestFilter, DigestPlace, DigestRecord, DigestState, EventExclusion, EventPlace, KeptLetter,
    KeptWebhookLetter, ListPage, PageCursor, PageRequest, WebhookLetterFilter, WebhookLetterId, WebhookLetterPlace,
    WebhookLetterRecord,
};
use uuid::Uuid;

use crate::{
    Result,
    digest::digest_columns,
    sql::{SqlStore, calls, columns::record, dialect::Dialect, no_nul},
};

calls! {
    /// Pages of the ledger for operators (rule 36), without addresses.
    pub trait LedgerListings {
        #[span(tenant = filter.tenant)]
        async fn list_digests(&self, filter: &DigestFilter) -> Result<ListPage<DigestRecord, DigestPlace>>;

        /// The digest, if it belongs to the tenant (or any tenant if `None`).
        #[span(tenant, digest = %digest_id)]
        async fn digest_of(&self, tenant: Option<&str>, digest_id: Uuid) -> Result<Option<DigestRecord>>;

        /// A digest's events by occurrence time, including those excluded at its claim.
        #[span(digest = %digest.digest_id)]
        async fn digest_events(
            &self,
            digest: &DigestRecord,
            page: &PageRequest<EventPlace>,
        ) -> Result<ListPage<DigestEvent, EventPlace>>;

        /// A digest's audit entries, earliest first: entries with its id, plus commands on its key and pauses
        /// covering it while the digest was open. At most 500.
        #[span(digest = %digest.digest_id)]
        async fn audit_of_digest(&self, digest: &DigestRecord) -> Result<Vec<AuditRecord>>;

        #[span(tenant = filter.tenant)]
        async fn audit_entries(&self, filter: &AuditFilter) -> Result<ListPage<AuditRecord, AuditPlace>>;

        #[span(tenant = filter.tenant)]
        async fn dead_letters(&self, filter: &DeadLetterFilter) -> Result<ListPage<DeadLetterRecord, DeadLetterPlace>>;

        /// The dead letter, if it belongs to the tenant (or any tenant if `None`), with the stored part of
        /// its payload. Note that the payload may contain addresses.
        #[span(tenant, letter = %id)]
        async fn dead_letter(&self, tenant: Option<&str>, id: &DeadLetterId) -> Result<Option<KeptLetter>>;

        async fn webhook_letters(
            &self,
            filter: &WebhookLetterFilter,
        ) -> Result<ListPage<WebhookLetterRecord, WebhookLetterPlace>>;

        #[span(letter = %id)]
        async fn webhook_letter(&self, id: &WebhookLetterId) -> Result<Option<KeptWebhookLetter>>;
    }
}

/// `$1` tenant, `$2` digest type, `$3` user, `$4` outcome, `$5` state; each may be empty, unless the index in
/// use needs it. Opened from `$6` until before `$7`. `$8`: only digests overdue at `$9`. After the opening
/// `$10` and the id `$11`; `$12` limit.
macro_rules! digests {
    ($way_in:literal, $opened_at:literal) => {
        concat!(
            digest_columns!(),
            "WHERE ",
            $way_in,
            " AND ($2 = '' OR d.digest_type = $2) AND ($3 = '' OR d.user_id = $3) AND ($4 = '' OR d.outcome = $4)
              AND ($5 = '' OR d.state = $5) AND (NOT $8 OR (d.state <> 'open' AND d.due_at < $9)) AND ",
            $opened_at,
            " >= $6 AND ",
            $opened_at,
            " < $7 AND (",
            $opened_at,
            ", d.digest_id) < ($10, $11) ORDER BY ",
            $opened_at,
            " DESC, d.digest_id DESC LIMIT $12"
        )
    };
}

pub const ALL: &str = digests!("($1 = '' OR d.tenant = $1)", "d.opened_at");
pub const OF_TENANT: &str = digests!("d.tenant = $1", "d.opened_at");
// `+ 0` keeps the planner from choosing the index by age, which would scan all other digests.
pub const OF_KEY: &str = digests!("d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3", "d.opened_at + 0");
/// The condition on `emptied_at` is needed for using the index `digests_to_empty`.
pub const WITHOUT_END: &str =
    digests!("d.closed_at IS NULL AND d.emptied_at IS NULL AND ($1 = '' OR d.tenant = $1)", "d.opened_at + 0");

pub const ONE: &str = concat!(digest_columns!(), "WHERE d.digest_id = $1 AND ($2 = '' OR d.tenant = $2)");

impl<D: Dialect> SqlStore<D> {
    async fn digest_of(&self, tenant: Option<&str>, digest_id: Uuid) -> Result<Option<DigestRecord>> {
        let one = query(ONE).bind(digest_id.to_string()).bind(no_nul(tenant.unwrap_or_default()));
        self.read_record(one).await
    }

    async fn list_digests(&self, filter: &DigestFilter) -> Result<ListPage<DigestRecord, DigestPlace>> {
        let DigestFilter { tenant, digest_type, user, outcome, state, since, until, overdue_at, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let name = |name: Option<&'static str>| name.unwrap_or_default().to_owned();
        let after = page.after.as_ref().map(|PageCursor((at, id))| (at.as_millisecond(), id.to_string()));
        let (after_at, after_id) = after.unwrap_or((i64::MAX, String::new()));
        let rows = query(listing_statement(filter))
            .bind(text(tenant))
            .bind(text(digest_type))
            .bind(text(user))
            .bind(name(outcome.map(|outcome| outcome.name())))
            .bind(name(state.map(|state| state.name())))
            .bind(since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(until.map_or(i64::MAX, |until| until.as_millisecond()))
            .bind(overdue_at.is_some())
            .bind(overdue_at.map_or(i64::MAX, |now| now.as_millisecond()))
            .bind(after_at)
            .bind(after_id)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &DigestRecord| (last.opened_at, last.digest_id)))
    }
}

fn listing_statement(filter: &DigestFilter) -> &'static str {
    let without_end = filter.state.is_some_and(|state| state != DigestState::Closed);
    match filter {
        DigestFilter { tenant: Some(_), digest_type: Some(_), user: Some(_), .. } => OF_KEY,
        _ if filter.overdue_at.is_some() || without_end => WITHOUT_END,
        DigestFilter { tenant: Some(_), .. } => OF_TENANT,
        _ => ALL,
    }
}

/// `$1` digest, after the time `$2` and the id `$3`, `$4` limit; `$5` to `$9` the digests with its excluded
/// events.
pub const EVENTS: &str = "
SELECT e.event_id, e.category, e.entity_type, e.occurred_at, e.recorded_at, e.urgent, e.returned_from,
       CASE WHEN e.digest_id = $1 THEN NULL ELSE COALESCE(d.why, '') END AS excluded
FROM events e JOIN digests d ON d.digest_id = e.digest_id
WHERE e.digest_id IN ($1, $5, $6, $7, $8, $9) AND (e.occurred_at, e.event_id) > ($2, $3)
ORDER BY e.occurred_at, e.event_id LIMIT $4";

impl<D: Dialect> SqlStore<D> {
    async fn digest_events(
        &self,
        digest: &DigestRecord,
        page: &PageRequest<EventPlace>,
    ) -> Result<ListPage<DigestEvent, EventPlace>> {
        let window = digest.window();
        let after = page.after.as_ref().map(|PageCursor((at, id))| (at.as_millisecond(), id.clone()));
        let (after_at, after_id) = after.unwrap_or((i64::MIN, String::new()));
        let rows =
            query(EVENTS).bind(digest.digest_id.to_string()).bind(after_at).bind(after_id).bind(page.rows_to_read());
        let rows =
            EventExclusion::ALL.iter().fold(rows, |rows, reason| rows.bind(reason.digest_id(&window).to_string()));
        let rows = self.read_records(rows).await?;
        Ok(page.build_page(rows, |last: &DigestEvent| (last.occurred_at, last.event_id.clone())))
    }
}

record!(row => DigestEvent {
    event_id, category, entity_type, occurred_at, recorded_at, urgent, excluded, returned_from,
});
