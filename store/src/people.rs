use std::collections::BTreeSet;

use serde_json::Value;
use sqlx::{query, query_as};
use tidings_model::{
    EmailAddress, Key, PersonId,
    limits::BATCH_EVENTS,
    records::{
        KeyPlace, ListPage, ListedRecipient, PageCursor, PageRequest, PersonRecord, PersonRowKind, PersonsChoice,
        PersonsConsent, PersonsReading, Recipient, RecipientFilter, RecipientPlace, RowPlace, Suppression,
    },
    zone_aliases,
};

use crate::{
    Result,
    sql::{
        SqlStore, calls, checked_number,
        columns::{JsonColumn, RowRecord, column, record, row},
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

calls! {
    pub trait PeopleStore {
        #[span(tenant = filter.tenant)]
        async fn recipients(&self, filter: &RecipientFilter) -> Result<ListPage<ListedRecipient, RecipientPlace>>;

        #[span(count = people.len())]
        async fn unknown_people(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>>;

        async fn directory_rows(&self, page: &PageRequest<RecipientPlace>) -> Result<ListPage<Recipient, RecipientPlace>>;

        async fn chosen_zones(&self, page: &PageRequest<KeyPlace>) -> Result<ListPage<(Key, String), KeyPlace>>;

        /// Counts directory rows and preferences by zone name, exactly as written. Reads all rows.
        #[span(tenant)]
        async fn count_zones(&self, tenant: Option<&str>) -> Result<Vec<(String, u64)>>;

        #[span(person = %person)]
        async fn person(&self, person: &PersonId) -> Result<PersonRecord>;

        /// A page of rows about a person, in the archive's format. `key` selects one digest type; an empty
        /// type selects single messages to the person and to `addresses`, their delivery events, and the
        /// audit trail. Note that a page may be short even if more follow.
        #[span(key = %key, part = part.name())]
        async fn person_rows(
            &self,
            key: &Key,
            addresses: &BTreeSet<String>,
            part: PersonRowKind,
            page: &PageRequest<RowPlace>,
        ) -> Result<ListPage<Value, RowPlace>>;
    }
}

pub mod held;

pub const STRANGERS: StatementVariants = StatementVariants {
    sqlite: "
SELECT value->>'tenant' AS tenant, value->>'user' AS user_id FROM jsonb_each($1)
WHERE NOT EXISTS (SELECT 1 FROM recipients r WHERE r.tenant = value->>'tenant' AND r.user_id = value->>'user')",
    postgres: "
SELECT value->>'tenant' AS tenant, value->>'user' AS user_id FROM jsonb_array_elements($1::jsonb)
WHERE NOT EXISTS (SELECT 1 FROM recipients r WHERE r.tenant = value->>'tenant' AND r.user_id = value->>'user')",
};

pub const ZONES: &str = "
SELECT zone, COUNT(*) FROM (
    SELECT zone FROM recipients WHERE zone <> '' AND ($1 = '' OR tenant = $1)
    UNION ALL
    SELECT chosen->>'zone' FROM preferences WHERE chosen->>'zone' IS NOT NULL AND ($1 = '' OR tenant = $1)) zones
GROUP BY zone ORDER BY zone";

impl<D: Dialect> SqlStore<D> {
    async fn recipients(&self, filter: &RecipientFilter) -> Result<ListPage<ListedRecipient, RecipientPlace>> {
        Self::list_recipients(&mut *self.reader.acquire().await?, filter).await
    }

    async fn unknown_people(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>> {
        let asked: Vec<_> = people.iter().collect();
        let mut connection = self.reader.acquire().await?;
        let mut strangers = BTreeSet::new();
        for page in asked.chunks(BATCH_EVENTS) {
            let rows: Vec<(String, String)> =
                query_as(D::pick_variant(STRANGERS)).bind(to_json(&page)?).fetch_all(&mut *connection).await?;
            strangers.extend(rows.into_iter().map(|(tenant, user)| PersonId { tenant, user }));
        }
        connection.release();
        Ok(strangers)
    }

    async fn directory_rows(&self, page: &PageRequest<RecipientPlace>) -> Result<ListPage<Recipient, RecipientPlace>> {
        Self::list_directory(&mut *self.reader.acquire().await?, page).await
    }

    async fn chosen_zones(&self, page: &PageRequest<KeyPlace>) -> Result<ListPage<(Key, String), KeyPlace>> {
        Self::list_chosen_zones(&mut *self.reader.acquire().await?, page).await
    }

    async fn count_zones(&self, tenant: Option<&str>) -> Result<Vec<(String, u64)>> {
        let counts = query_as(ZONES).bind(tenant.unwrap_or_default().to_owned());
        let counts: Vec<(String, i64)> = counts.fetch_all(&mut *self.reader.acquire().await?).await?;
        counts.into_iter().map(|(zone, rows)| Ok((zone, checked_number(rows)?))).collect()
    }

    async fn person(&self, person: &PersonId) -> Result<PersonRecord> {
        let mut tx = self.begin_read().await?;
        let known = Self::read_person(&mut tx, person).await?;
        tx.commit().await?;
        Ok(known)
    }

    async fn person_rows(
        &self,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: PersonRowKind,
        page: &PageRequest<RowPlace>,
    ) -> Result<ListPage<Value, RowPlace>> {
        let mut tx = self.begin_read().await?;
        let rows = Self::rows_about(&mut tx, key, addresses, part, page).await?;
        tx.commit().await?;
        Ok(rows)
    }
}

pub const RECIPIENT: &str = "
SELECT tenant, user_id, address, name, zone, locale FROM recipients WHERE tenant = $1 AND user_id = $2";

pub const CHOICES: &str = "
SELECT digest_type, CAST(chosen AS TEXT) AS chosen, revision, changed_at FROM preferences
WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const CONSENTS: &str = "
SELECT digest_type, consent, changed_at FROM consents WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const READINGS: &str = "
SELECT digest_type, read_at, sign_at FROM readings WHERE tenant = $1 AND user_id = $2 ORDER BY digest_type";

pub const SUPPRESSIONS_OF: &str = "
SELECT tenant, address_lower, reason, detail, suppressed_at FROM suppressions
WHERE tenant = $1 AND (address_lower = $2 OR address_lower IN
    (SELECT r.pseudonym FROM recipients r WHERE r.tenant = $1 AND r.address_lower = $2))
ORDER BY suppressed_at, reason";

/// Includes unconfigured types. Notices about single messages have no type.
pub const TYPES_OF: &str = "
SELECT DISTINCT digest_type FROM digests WHERE tenant = $1 AND user_id = $2
UNION SELECT digest_type FROM retracts WHERE tenant = $1 AND user_id = $2
UNION SELECT digest_type FROM notices WHERE tenant = $1 AND user_id = $2 AND digest_type <> ''";

/// Tenant, user, `$3` LIKE pattern for the workflow ids of all the person's keys, which are between `$4` and
/// `$5`. SQLite's LIKE ignores case.
pub const WORKFLOWS_OF: &str = "
SELECT workflow_id FROM inbox WHERE tenant = $1 AND user_id = $2
UNION SELECT workflow_id FROM dead_letters WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'
UNION SELECT workflow_id FROM job_keys WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'
UNION SELECT workflow_id FROM troubled_runs WHERE workflow_id > $4 AND workflow_id < $5 AND workflow_id LIKE $3 ESCAPE '!'";

pub const ENVELOPES_OF: &str = "
SELECT DISTINCT m.envelope_to, m.former_envelopes FROM digests d JOIN messages m ON m.id = d.digest_id
WHERE d.tenant = $1 AND d.user_id = $2
UNION SELECT envelope_to, former_envelopes FROM messages WHERE tenant = $1 AND user_id = $2 AND digest_id IS NULL";

impl<D: Dialect> SqlStore<D> {
    async fn read_person(connection: &mut D::Connection, person: &PersonId) -> Result<PersonRecord> {
        let recipient: Vec<Recipient> = Self::of_person(&mut *connection, RECIPIENT, person).await?;
        let recipient = recipient.into_iter().next();
        let preferences: Vec<PersonsChoice> = Self::of_person(&mut *connection, CHOICES, person).await?;
        let consents: Vec<PersonsConsent> = Self::of_person(&mut *connection, CONSENTS, person).await?;
        let readings: Vec<PersonsReading> = Self::of_person(&mut *connection, READINGS, person).await?;
        let mut digest_types = Self::types_of(&mut *connection, person).await?;
        let workflows = Self::workflows_of(&mut *connection, person).await?;
        let envelopes = query_as(ENVELOPES_OF).bind(&person.tenant).bind(&person.user);
        let envelopes: Vec<EnvelopeRow> = envelopes.fetch_all(&mut *connection).await?;
        let envelopes = envelopes.iter().flat_map(EnvelopeRow::addresses);
        let mut addresses: BTreeSet<_> = envelopes.map(|address| EmailAddress::normalize_address(address)).collect();
        addresses.extend(recipient.iter().map(|recipient| EmailAddress::normalize_address(&recipient.address)));
        let suppressions = Self::suppressions_of(connection, &person.tenant, &addresses).await?;
        digest_types.extend(workflows.into_iter().map(|key| key.digest_type));
        digest_types.extend(preferences.iter().map(|choice| choice.digest_type.clone()));
        digest_types.extend(consents.iter().map(|consent| consent.digest_type.clone()));
        digest_types.extend(readings.iter().map(|reading| reading.digest_type.clone()));
        Ok(PersonRecord { recipient, preferences, consents, readings, suppressions, addresses, digest_types })
    }

    async fn workflows_of(connection: &mut D::Connection, person: &PersonId) -> Result<Vec<Key>> {
        let PersonId { tenant, user } = person;
        // `!` can escape, because a workflow id never has one: everything except letters, digits and `-._~`
        // is percent-encoded.
        let without_type = person.key("").workflow_id().replace('%', "!%").replace('_', "!_");
        let pattern = without_type.replace("//", "/%/");
        let [first, end] = workflows_between(tenant);
        let ids = query_as(WORKFLOWS_OF).bind(no_nul(tenant)).bind(no_nul(user)).bind(pattern).bind(first).bind(end);
        let ids: Vec<(String,)> = ids.fetch_all(connection).await?;
        let keys = ids.into_iter().filter_map(|(id,)| Key::from_workflow_id(&id).ok());
        Ok(keys.filter(|key| key.tenant == *tenant && key.user == *user).collect())
    }

    pub(crate) async fn of_person<T: RowRecord + Send + Unpin>(
        connection: &mut D::Connection,
        statement: &'static str,
        PersonId { tenant, user }: &PersonId,
    ) -> Result<Vec<T>> {
        Ok(query(statement).bind(tenant).bind(user).try_map(Self::to_record).fetch_all(connection).await?)
    }

    pub(crate) async fn types_of(connection: &mut D::Connection, person: &PersonId) -> Result<BTreeSet<String>> {
        let types = query_as(TYPES_OF).bind(&person.tenant).bind(&person.user);
        let types: Vec<(String,)> = types.fetch_all(connection).await?;
        Ok(types.into_iter().map(|(digest_type,)| digest_type).collect())
    }

    async fn suppressions_of(
        connection: &mut D::Connection,
        tenant: &str,
        addresses: &BTreeSet<String>,
    ) -> Result<Vec<Suppression>> {
        let mut suppressions = Vec::new();
        for address in addresses {
            let rows = query(SUPPRESSIONS_OF).bind(tenant.to_owned()).bind(address).try_map(Self::to_record);
            suppressions.extend(rows.fetch_all(&mut *connection).await?);
        }
        Ok(suppressions)
    }
}

pub fn workflows_between(tenant: &str) -> [String; 2] {
    let first = Key::workflow_ids_of(tenant);
    let end = format!("{}0", first.trim_end_matches('/'));
    [first, end]
}

row! {
pub struct EnvelopeRow {
    envelope_to: String,
    former_envelopes: Option<JsonColumn<BTreeSet<String>>>,
}
}

impl EnvelopeRow {
    fn addresses(&self) -> impl Iterator<Item = &String> {
        [&self.envelope_to].into_iter().chain(self.former_envelopes.iter().flat_map(|former| &former.0))
    }
}

record!(row => PersonsChoice { digest_type, chosen: column(row, "chosen").map(|JsonColumn(chosen)| chosen)?, revision, changed_at });
record!(row => PersonsConsent { digest_type, consent, changed_at });
record!(row => PersonsReading { digest_type, read_at, sign_at });

macro_rules! recipients {
    ($zones:literal) => {
        concat!(
            "
SELECT * FROM (
    SELECT r.tenant, r.user_id, r.address, r.name, r.zone, r.locale,
           (SELECT s.reason FROM suppressions s WHERE s.tenant = r.tenant AND s.address_lower IN (r.address_lower, r.pseudonym)
            ORDER BY s.suppressed_at, s.reason LIMIT 1) AS suppressed
    FROM recipients r
    WHERE (r.tenant = $1 OR $1 = '') AND (r.address_lower = $2 OR $2 = '') AND ($3 = '[]' OR r.zone IN (",
            $zones,
            "))
      AND (r.locale = $4 OR $4 = '') AND (r.tenant, r.user_id) > ($6, $7)) known
WHERE suppressed IS NOT NULL OR NOT $5
ORDER BY tenant, user_id LIMIT $8"
        )
    };
}

/// `$1` tenant, `$2` folded address, `$3` JSON array of all names for a zone, `$4` locale; each may be empty.
/// `$5`: only suppressed ones. After the tenant `$6` and the user `$7`; `$8` limit.
pub const RECIPIENTS: StatementVariants = StatementVariants {
    sqlite: recipients!("SELECT value FROM jsonb_each($3)"),
    postgres: recipients!("SELECT jsonb_array_elements_text($3::jsonb)"),
};

pub const DIRECTORY: &str = "
SELECT tenant, user_id, address, name, zone, locale FROM recipients WHERE (tenant, user_id) > ($1, $2)
ORDER BY tenant, user_id LIMIT $3";

pub const CHOSEN_ZONES: &str = "
SELECT tenant, digest_type, user_id, chosen->>'zone' AS zone FROM preferences
WHERE chosen->>'zone' IS NOT NULL AND (tenant, digest_type, user_id) > ($1, $2, $3)
ORDER BY tenant, digest_type, user_id LIMIT $4";

impl<D: Dialect> SqlStore<D> {
    async fn list_directory(
        connection: &mut D::Connection,
        page: &PageRequest<RecipientPlace>,
    ) -> Result<ListPage<Recipient, RecipientPlace>> {
        let (tenant, user) = page.after.clone().map(|PageCursor(place)| place).unwrap_or_default();
        let rows = query(DIRECTORY).bind(tenant).bind(user).bind(page.rows_to_read());
        let rows = rows.try_map(Self::to_record).fetch_all(connection).await?;
        Ok(page.build_page(rows, |last: &Recipient| (last.tenant.clone(), last.user.clone())))
    }

    async fn list_chosen_zones(
        connection: &mut D::Connection,
        page: &PageRequest<KeyPlace>,
    ) -> Result<ListPage<(Key, String), KeyPlace>> {
        let (tenant, digest_type, user) = page.after.clone().map(|PageCursor(place)| place).unwrap_or_default();
        let rows = query_as(CHOSEN_ZONES).bind(tenant).bind(digest_type).bind(user).bind(page.rows_to_read());
        let rows: Vec<(String, String, String, String)> = rows.fetch_all(connection).await?;
        let rows = rows.into_iter().map(|(tenant, digest_type, user, zone)| (Key { tenant, digest_type, user }, zone));
        let rows = rows.collect();
        Ok(page.build_page(rows, |(last, _): &(Key, String)| {
            (last.tenant.clone(), last.digest_type.clone(), last.user.clone())
        }))
    }

    async fn list_recipients(
        connection: &mut D::Connection,
        filter: &RecipientFilter,
    ) -> Result<ListPage<ListedRecipient, RecipientPlace>> {
        let RecipientFilter { tenant, address, zone, locale, suppressed, page } = filter;
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        let (after_tenant, after_user) = page.after.clone().map(|PageCursor(place)| place).unwrap_or_default();
        let names = zone.as_deref().map(zone_aliases).unwrap_or_default();
        let rows = query(D::pick_variant(RECIPIENTS))
            .bind(text(tenant))
            .bind(EmailAddress::normalize_address(address.as_deref().unwrap_or_default()))
            .bind(to_json(&names)?)
            .bind(text(locale))
            .bind(*suppressed)
            .bind(after_tenant)
            .bind(after_user)
            .bind(page.rows_to_read());
        let rows = rows.try_map(Self::to_record).fetch_all(connection).await?;
        Ok(page.build_page(rows, |last: &ListedRecipient| (last.recipient.tenant.clone(), last.recipient.user.clone())))
    }
}

record!(row => ListedRecipient { recipient: Recipient::read::<D>(row)?, suppressed });
record!(row => Recipient { tenant, user = "user_id", address, name, zone, locale });
