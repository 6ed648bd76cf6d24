//! Erases a person. Rows still needed by rules stay, without texts and with a pseudonym instead of the
//! address.

use std::collections::BTreeSet;

use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use sqlx::{query, query_as};
use tidings_model::{
    EmailAddress, Key, PersonId, hex,
    records::{AuditActor, AuditEntry, ErasedRows, PageCursor, PageRequest, RowPlace},
    window::{DigestOutcome, WindowEnd},
};
use uuid::Uuid;

use crate::{
    Result, StoreError,
    catalogue::{DeletionKey, RowDeletion, deletions_by},
    digest::LOCK_MESSAGE,
    names::tenants,
    pseudonym::{PREFIX, Pseudonyms},
    sql::{SqlStore, calls, checked_number, dialect::Dialect, to_json},
};

calls! {
    /// Erases a person step by step. Each call is one transaction or page, and a repeated call continues. Run
    /// the steps in the order of these methods: addresses can only be found while a message or the directory
    /// has them.
    pub trait ErasureStore {
        async fn pseudonyms(&self) -> Result<Pseudonyms>;

        /// Returns the addresses nobody else in the tenant's directory has. Only pass these to the steps, so
        /// shared ones stay.
        #[span(person = %person)]
        async fn own_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<BTreeSet<String>>;

        #[span(person = %person)]
        async fn preview_erasure(
            &self,
            person: &PersonId,
            types: &BTreeSet<String>,
            addresses: &BTreeSet<String>,
        ) -> Result<ErasedRows>;

        /// Replaces the address by a pseudonym in suppressions and delivery events. A suppression still holds
        /// if the address returns.
        #[span(person = %person)]
        async fn erase_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<ErasedRows>;

        /// Ends a key's open digests, and erases their events, messages, attempts and delivery events, a few
        /// digests per call. Repeat until nothing changes.
        #[span(key = %key)]
        async fn erase_digests(&self, key: &Key, now: Timestamp) -> Result<ErasedRows>;

        /// Ends and erases a page of the person's single messages, including those without a user to one of
        /// the addresses. Returns the cursor for the next page.
        #[span(person = %person)]
        async fn erase_messages(
            &self,
            person: &PersonId,
            addresses: &BTreeSet<String>,
            page: &PageRequest<RowPlace>,
            now: Timestamp,
        ) -> Result<(ErasedRows, Option<PageCursor<RowPlace>>)>;

        /// Deletes preferences, consents, retracts and dead letters of the person's keys, and webhook dead
        /// letters about their messages.
        #[span(person = %person)]
        async fn erase_choices(&self, person: &PersonId, types: &BTreeSet<String>) -> Result<ErasedRows>;

        #[span(person = %person)]
        async fn erase_recipient(&self, person: &PersonId) -> Result<ErasedRows>;
    }
}

const DIGESTS: i64 = 20;
const EVENTS: i64 = 1_000;
const WHY: &str = "its recipient was erased";

pub const SHARED: &str = concat!(
    "SELECT COUNT(*) FROM recipients WHERE tenant IN (SELECT t.tenant FROM ",
    tenants!(),
    " t) AND address_lower = $2 AND user_id <> $3"
);

/// `$3` pseudonym, here and below. If both addresses are suppressed for the same reason, keeps the earliest.
pub const ERASE_SUPPRESSIONS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at)
SELECT tenant, $3, reason, '', suppressed_at FROM suppressions WHERE tenant = $1 AND address_lower = $2
ON CONFLICT (tenant, address_lower, reason) DO UPDATE SET suppressed_at = excluded.suppressed_at
WHERE suppressions.suppressed_at > excluded.suppressed_at";

pub const PUT_ERASED_ADDRESS: &str =
    "INSERT INTO erased_addresses (tenant, pseudonym) VALUES ($1, $2) ON CONFLICT DO NOTHING";

pub const DELETE_SUPPRESSIONS: &str = "DELETE FROM suppressions WHERE tenant = $1 AND address_lower = $2";

pub const ERASE_REPORTS_OF_ADDRESS: &str = "
UPDATE delivery_events SET address_lower = $3, diagnostic = '', url = NULL WHERE tenant = $1 AND address_lower = $2";

macro_rules! digests_to_erase {
    () => {
        " FROM digests d WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3
  AND (d.erased_at IS NULL OR EXISTS (SELECT 1 FROM events e WHERE e.digest_id = d.digest_id AND e.erased_at IS NULL))"
    };
}

pub const DIGESTS_TO_ERASE: &str = concat!("SELECT d.digest_id", digests_to_erase!(), " ORDER BY d.digest_id LIMIT $4");

/// Events waiting for the key's next claim stop waiting.
pub const ERASE_EVENTS: &str = "
UPDATE events SET entity_type = '', entity_id = '', actor = '', counts = '{}', payload = '{}', returned_at = NULL, erased_at = $2,
    content_sha256 = NULL, other_categories = NULL, refused_sha256 = NULL
WHERE (tenant, digest_type, user_id, event_id) IN
    (SELECT tenant, digest_type, user_id, event_id FROM events WHERE digest_id = $1 AND erased_at IS NULL
     ORDER BY event_id LIMIT $3)";

/// Also sets `purged_at`, so retention and a reopen treat the digest as incomplete. Clears `why` where it may
/// be a relay's reply, which may name the recipient.
pub const ERASE_DIGEST: &str = "
UPDATE digests SET erased_at = COALESCE(erased_at, $2), purged_at = COALESCE(purged_at, $2),
    why = CASE WHEN outcome IN ('failed', 'ambiguous') THEN '' ELSE why END, plan_why = NULL
WHERE digest_id = $1";

pub const ENVELOPE: &str = "SELECT tenant, envelope_to FROM messages WHERE id = $1";

/// `$2` pseudonym, `$3` no bytes. Clears the thread id, because it is a hash of guessable values.
pub const ERASE_MESSAGE: &str = "
UPDATE messages SET envelope_to = $2, subject = '', bytes = $3, made_from = '', thread = NULL, former_envelopes = NULL,
    erased_at = $4, why = CASE WHEN state IN ('failed', 'ambiguous') THEN '' ELSE why END
WHERE id = $1 AND erased_at IS NULL";

pub const ERASE_ATTEMPTS: &str = "
UPDATE attempts SET reply = CASE WHEN reply IS NULL THEN NULL ELSE '' END,
    late_reply = CASE WHEN late_reply IS NULL THEN NULL ELSE '' END
WHERE message = $1";

/// Works even if the message is gone.
pub const REPORTED_ADDRESSES: &str = "SELECT DISTINCT tenant, address_lower FROM delivery_events WHERE message = $1";

pub const ERASE_REPORTS: &str = "
UPDATE delivery_events SET address_lower = $3, diagnostic = '', url = NULL
WHERE message = $1 AND address_lower = $2 AND (diagnostic <> '' OR url IS NOT NULL OR address_lower <> $3)";

/// An erased key without a result no longer counts for its job; otherwise the job's counts would not add up.
pub const UNMATCH_JOB_KEYS: &str = "
UPDATE jobs SET matched = matched - 1 WHERE matched IS NOT NULL
  AND job_id IN (SELECT job_id FROM job_keys WHERE workflow_id = $1 AND state IN ('left', 'sent'))";
/// Keeps the row: otherwise the sweep would find the run again and recover it, and its history contains the
/// person's events.
pub const ERASE_RUNS: &str = "
UPDATE troubled_runs SET ended_by = NULL, why = NULL, due_at = NULL, resolution = COALESCE(resolution, 'dismissed'),
    resolved_at = COALESCE(resolved_at, found_at)
WHERE workflow_id = $1";
/// Works even if no directory has the message's recipient.
pub const DELETE_LETTERS_OF_MESSAGE: &str = "
DELETE FROM webhook_dead_letters WHERE (relay, sha256) IN (SELECT relay, sha256 FROM webhook_letter_ids WHERE id = $1)";

pub const COUNT_SUPPRESSIONS: &str = "SELECT COUNT(*) FROM suppressions WHERE tenant = $1 AND address_lower = $2";
pub const COUNT_DIGESTS: &str = concat!("SELECT COUNT(*)", digests_to_erase!());
pub const COUNT_EVENTS: &str = "
SELECT COUNT(*) FROM events WHERE tenant = $1 AND digest_type = $2 AND user_id = $3 AND erased_at IS NULL";
pub const COUNT_MESSAGES: &str = "
SELECT COUNT(*) FROM digests d JOIN messages m ON m.id = d.digest_id
WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND m.erased_at IS NULL";
pub const COUNT_REPORTS: &str = "
SELECT COUNT(*) FROM digests d JOIN delivery_events e ON e.message = d.digest_id
WHERE d.tenant = $1 AND d.digest_type = $2 AND d.user_id = $3 AND (e.diagnostic <> '' OR e.url IS NOT NULL
     OR e.address_lower NOT LIKE 'erased:%')";
pub const COUNT_SINGLE: &str =
    "SELECT COUNT(*) FROM messages WHERE erased_at IS NULL AND id IN (SELECT value->>0 FROM {each})";
pub const COUNT_REPORTS_AMONG: &str = "
SELECT COUNT(*) FROM delivery_events
WHERE (diagnostic <> '' OR url IS NOT NULL OR address_lower NOT LIKE 'erased:%') AND message IN (SELECT value->>0 FROM {each})";

const PAGE: u32 = 500;

const SECRET_NAME: &str = "addresses";
const SECRET_BYTES: usize = 32;

pub const PUT_SECRET: &str = "INSERT INTO secrets (name, value, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";

pub const SECRET: &str = "SELECT value FROM secrets WHERE name = $1";

impl<D: Dialect> SqlStore<D> {
    async fn pseudonyms(&self) -> Result<Pseudonyms> {
        self.pseudonym_secret().await
    }

    async fn own_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<BTreeSet<String>> {
        let mut own = BTreeSet::new();
        for address in addresses {
            let shared = query_as(SHARED).bind(person.tenant.clone()).bind(address.clone());
            let (others,): (i64,) =
                shared.bind(person.user.clone()).fetch_one(&mut *self.reader.acquire().await?).await?;
            if others == 0 {
                own.insert(address.clone());
            }
        }
        Ok(own)
    }

    async fn preview_erasure(
        &self,
        person: &PersonId,
        types: &BTreeSet<String>,
        addresses: &BTreeSet<String>,
    ) -> Result<ErasedRows> {
        let mut tx = self.begin_read().await?;
        let erased = Self::count_erasable(&mut tx, person, types, addresses).await?;
        tx.commit().await?;
        Ok(erased)
    }

    async fn erase_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<ErasedRows> {
        let pseudonyms = self.pseudonym_secret().await?;
        let tenant = &person.tenant;
        let mut erased = ErasedRows::default();
        let mut tx = self.begin_write().await?;
        for address in addresses.iter().filter(|address| !address.starts_with(PREFIX)) {
            let pseudonym = pseudonyms.pseudonym_of(tenant, address);
            let args = |statement| query(statement).bind(tenant.clone()).bind(address.clone());
            let known = query(PUT_ERASED_ADDRESS).bind(tenant.clone()).bind(pseudonym.clone());
            known.execute(&mut *tx).await?;
            args(ERASE_SUPPRESSIONS).bind(pseudonym.clone()).execute(&mut *tx).await?;
            erased.suppressions += D::changed_rows(&args(DELETE_SUPPRESSIONS).execute(&mut *tx).await?);
            let reports = args(ERASE_REPORTS_OF_ADDRESS).bind(pseudonym).execute(&mut *tx).await?;
            erased.delivery_events += D::changed_rows(&reports);
        }
        tx.commit().await?;
        Ok(erased)
    }

    async fn erase_digests(&self, key: &Key, now: Timestamp) -> Result<ErasedRows> {
        let pseudonyms = self.pseudonym_secret().await?;
        let mut erased = ErasedRows::default();
        let mut tx = self.begin_write().await?;
        let ids = query_as(DIGESTS_TO_ERASE).bind(&key.tenant).bind(&key.digest_type).bind(&key.user);
        let ids: Vec<(String,)> = ids.bind(DIGESTS).fetch_all(&mut *tx).await?;
        for (id,) in ids {
            let id = id.parse().map_err(|_| StoreError::Broken(format!("a digest id in the store: {id:?}")))?;
            erased += Self::erase_digest(&mut tx, &pseudonyms, key, id, now).await?;
        }
        tx.commit().await?;
        Ok(erased)
    }

    async fn erase_messages(
        &self,
        person: &PersonId,
        addresses: &BTreeSet<String>,
        page: &PageRequest<RowPlace>,
        now: Timestamp,
    ) -> Result<(ErasedRows, Option<PageCursor<RowPlace>>)> {
        let pseudonyms = self.pseudonym_secret().await?;
        let mut erased = ErasedRows::default();
        let mut tx = self.begin_write().await?;
        let found = Self::messages_about(&mut tx, &person.key(""), addresses, page).await?;
        for id in found.rows.iter().filter_map(|row| row[0].as_str()?.parse().ok()) {
            erased += Self::erase_single(&mut tx, &pseudonyms, person, id, now).await?;
        }
        tx.commit().await?;
        Ok((erased, found.next))
    }

    async fn erase_choices(&self, person: &PersonId, types: &BTreeSet<String>) -> Result<ErasedRows> {
        let mut erased = ErasedRows::default();
        let mut tx = self.begin_write().await?;
        Self::delete_all(&mut tx, DeletionKey::Person, &[&person.tenant, &person.user], &mut erased).await?;
        for key in types.iter().map(|digest_type| person.key(digest_type)) {
            let workflow = key.workflow_id();
            Self::delete_all(&mut tx, DeletionKey::Key, &[&key.tenant, &key.digest_type, &key.user], &mut erased)
                .await?;
            query(UNMATCH_JOB_KEYS).bind(workflow.clone()).execute(&mut *tx).await?;
            query(ERASE_RUNS).bind(workflow.clone()).execute(&mut *tx).await?;
            Self::delete_all(&mut tx, DeletionKey::Workflow, &[&workflow], &mut erased).await?;
        }
        tx.commit().await?;
        Ok(erased)
    }

    async fn erase_recipient(&self, person: &PersonId) -> Result<ErasedRows> {
        let mut erased = ErasedRows::default();
        let mut connection = self.writer.acquire().await?;
        Self::delete_all(&mut connection, DeletionKey::Directory, &[&person.tenant, &person.user], &mut erased).await?;
        Ok(erased)
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn delete_all(
        connection: &mut D::Connection,
        by: DeletionKey,
        parameters: &[&String],
        erased: &mut ErasedRows,
    ) -> Result<()> {
        for RowDeletion { delete, counted, .. } in deletions_by(by) {
            let delete = parameters.iter().fold(query(*delete), |delete, parameter| delete.bind(*parameter));
            let rows = D::changed_rows(&delete.execute(&mut *connection).await?);
            if let Some(counted) = counted {
                *counted(erased) += rows;
            }
        }
        Ok(())
    }

    async fn count_all(
        connection: &mut D::Connection,
        by: DeletionKey,
        parameters: &[&String],
        erased: &mut ErasedRows,
    ) -> Result<()> {
        for RowDeletion { count, counted, .. } in deletions_by(by) {
            if let Some(counted) = counted {
                *counted(erased) += Self::count_rows(&mut *connection, count, parameters).await?;
            }
        }
        Ok(())
    }

    async fn erase_digest(
        connection: &mut D::Connection,
        pseudonyms: &Pseudonyms,
        key: &Key,
        id: Uuid,
        now: Timestamp,
    ) -> Result<ErasedRows> {
        let digest = Self::lock_digest(&mut *connection, id).await?;
        query(D::pick_variant(LOCK_MESSAGE)).bind(id.to_string()).execute(&mut *connection).await?;
        if digest.closed.is_none() {
            let closed = WindowEnd { outcome: DigestOutcome::Dropped, why: WHY.to_owned() };
            let closed = Self::unless_past_the_dot(&mut *connection, id, &closed, now).await?;
            Self::apply_end(&mut *connection, id, &closed, false, now).await?;
            Self::audit_close(&mut *connection, key, id, &closed, AuditActor::Tidings, now).await?;
        }
        let events = query(ERASE_EVENTS).bind(id.to_string()).bind(now.as_millisecond()).bind(EVENTS);
        let events = D::changed_rows(&events.execute(&mut *connection).await?);
        let mut erased = ErasedRows { events, ..ErasedRows::default() };
        if events < EVENTS.unsigned_abs() {
            erased += Self::erase_texts(&mut *connection, pseudonyms, id, now).await?;
            let digest = query(ERASE_DIGEST).bind(id.to_string()).bind(now.as_millisecond());
            erased.digests += D::changed_rows(&digest.execute(connection).await?);
        }
        Ok(erased)
    }

    async fn erase_single(
        connection: &mut D::Connection,
        pseudonyms: &Pseudonyms,
        person: &PersonId,
        id: Uuid,
        now: Timestamp,
    ) -> Result<ErasedRows> {
        let message = Self::lock_message(&mut *connection, id).await?;
        if message.closed.is_none() {
            let closed = WindowEnd { outcome: DigestOutcome::Dropped, why: WHY.to_owned() };
            let closed = Self::unless_past_the_dot(&mut *connection, id, &closed, now).await?;
            Self::apply_end(&mut *connection, id, &closed, false, now).await?;
            let why = format!("message {id}: {}: {}", closed.outcome.name(), closed.why);
            let entry = AuditEntry { at: now, actor: AuditActor::Tidings, action: "close".to_owned(), why };
            Self::audit_change(&mut *connection, &person.key(""), None, &entry).await?;
        }
        Self::erase_texts(connection, pseudonyms, id, now).await
    }

    /// Erases a locked message with its attempts and delivery events. Fences an attempt under way, so its end
    /// cannot bring text back.
    async fn erase_texts(
        connection: &mut D::Connection,
        pseudonyms: &Pseudonyms,
        id: Uuid,
        now: Timestamp,
    ) -> Result<ErasedRows> {
        let id = id.to_string();
        let envelope: Option<(String, String)> =
            query_as(ENVELOPE).bind(id.clone()).fetch_optional(&mut *connection).await?;
        let mut erased = ErasedRows::default();
        if let Some((tenant, to)) = envelope {
            let pseudonym = pseudonyms.pseudonym_of(&tenant, &EmailAddress::normalize_address(&to));
            Self::fence_attempt(&mut *connection, &id, now).await?;
            let message = query(ERASE_MESSAGE).bind(id.clone()).bind(pseudonym).bind(Vec::new());
            erased.messages += D::changed_rows(&message.bind(now.as_millisecond()).execute(&mut *connection).await?);
            query(ERASE_ATTEMPTS).bind(id.clone()).execute(&mut *connection).await?;
        }
        let letters = query(DELETE_LETTERS_OF_MESSAGE).bind(id.clone()).execute(&mut *connection).await?;
        erased.dead_letters += D::changed_rows(&letters);
        let reported = query_as(REPORTED_ADDRESSES).bind(id.clone()).fetch_all(&mut *connection).await?;
        let reported: Vec<(String, String)> = reported;
        for (tenant, address) in reported {
            let pseudonym = pseudonyms.pseudonym_of(&tenant, &address);
            let reports = query(ERASE_REPORTS).bind(id.clone()).bind(address).bind(pseudonym);
            erased.delivery_events += D::changed_rows(&reports.execute(&mut *connection).await?);
        }
        Ok(erased)
    }

    async fn count_erasable(
        connection: &mut D::Connection,
        person: &PersonId,
        types: &BTreeSet<String>,
        addresses: &BTreeSet<String>,
    ) -> Result<ErasedRows> {
        let mut erased = ErasedRows::default();
        for by in [DeletionKey::Directory, DeletionKey::Person] {
            Self::count_all(&mut *connection, by, &[&person.tenant, &person.user], &mut erased).await?;
        }
        for address in addresses.iter().filter(|address| !address.starts_with(PREFIX)) {
            let parameters = [&person.tenant, address];
            erased.suppressions += Self::count_rows(&mut *connection, COUNT_SUPPRESSIONS, &parameters).await?;
        }
        for digest_type in types {
            let key = person.key(digest_type);
            let parameters = [&key.tenant, &key.digest_type, &key.user];
            for (statement, count) in [
                (COUNT_DIGESTS, &mut erased.digests),
                (COUNT_EVENTS, &mut erased.events),
                (COUNT_MESSAGES, &mut erased.messages),
                (COUNT_REPORTS, &mut erased.delivery_events),
            ] {
                *count += Self::count_rows(&mut *connection, statement, &parameters).await?;
            }
            Self::count_all(&mut *connection, DeletionKey::Key, &parameters, &mut erased).await?;
            Self::count_all(&mut *connection, DeletionKey::Workflow, &[&key.workflow_id()], &mut erased).await?;
        }
        erased += Self::count_single_messages(connection, person, addresses).await?;
        Ok(erased)
    }

    async fn count_single_messages(
        connection: &mut D::Connection,
        person: &PersonId,
        addresses: &BTreeSet<String>,
    ) -> Result<ErasedRows> {
        let mut erased = ErasedRows::default();
        let mut page = PageRequest { limit: PAGE, after: None };
        loop {
            let found = Self::messages_about(&mut *connection, &person.key(""), addresses, &page).await?;
            let ids = to_json(&found.rows)?;
            for (statement, count) in
                [(COUNT_SINGLE, &mut erased.messages), (COUNT_REPORTS_AMONG, &mut erased.delivery_events)]
            {
                let counted = query_as(Self::expand_each(statement)).bind(ids.clone()).fetch_one(&mut *connection);
                let (rows,): (i64,) = counted.await?;
                *count += checked_number::<u64>(rows)?;
            }
            match found.next {
                None => return Ok(erased),
                after => page.after = after,
            }
        }
    }

    async fn count_rows(
        connection: &mut D::Connection,
        statement: &'static str,
        parameters: &[&String],
    ) -> Result<u64> {
        let query = parameters.iter().fold(query_as(statement), |query, parameter| query.bind(*parameter));
        let (rows,): (i64,) = query.fetch_one(connection).await?;
        checked_number(rows)
    }

    /// Reads the secret, or creates it. Do not call this within a transaction: SQLite has only one writing
    /// connection.
    pub(crate) async fn pseudonym_secret(&self) -> Result<Pseudonyms> {
        let pseudonyms = self.pseudonyms.get_or_try_init(|| async {
            if let Some(secret) = Self::drawn_secret(&mut *self.writer.acquire().await?).await? {
                return Ok(secret);
            }
            let mut drawn = [0; SECRET_BYTES];
            let drawn = SystemRandom::new().fill(&mut drawn).map(|()| drawn);
            let drawn = drawn.map_err(|_| StoreError::Broken("the system has no random numbers".to_owned()))?;
            let hex = hex(&drawn);
            let put = query(PUT_SECRET).bind(SECRET_NAME.to_owned()).bind(hex);
            put.bind(Timestamp::now().as_millisecond()).execute(&mut *self.writer.acquire().await?).await?;
            // Another process may have created it first.
            let drawn = Self::drawn_secret(&mut *self.writer.acquire().await?).await?;
            drawn.ok_or_else(|| StoreError::Broken("the table secrets lost a row".to_owned()))
        });
        pseudonyms.await.cloned()
    }

    pub(crate) async fn drawn_secret(connection: &mut D::Connection) -> Result<Option<Pseudonyms>> {
        let row = query_as(SECRET).bind(SECRET_NAME.to_owned()).fetch_optional(connection).await?;
        Ok(row.map(|(secret,): (String,)| Pseudonyms::new(secret.as_bytes())))
    }
}
