//! People, and everything that is held about them.

use std::collections::BTreeSet;

use serde_json::Value;
use sqlx::query_as;
use tidings_model::{
    Key, PersonId,
    limits::BATCH_EVENTS,
    records::{
        KeyPlace, Listed, ListedRecipient, Page, Part, Person, Recipient, RecipientFilter, RecipientPlace, RowPlace,
    },
};

use crate::{
    Result,
    sql::{
        Sql, calls,
        dialect::{Dialect, Variants},
        json, number,
    },
};

calls! {
    /// People and everything that is held about them.
    pub trait People {
        /// Lists recipients by tenant and user.
        #[span(tenant = filter.tenant)]
        async fn recipients(&self, filter: &RecipientFilter) -> Result<Listed<ListedRecipient, RecipientPlace>>;

        /// Returns those of the people, each once, whom the directory does not have.
        #[span(count = people.len())]
        async fn strangers(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>>;

        /// Lists the rows of the directory alone, by tenant and user, at a small price for each.
        async fn directory_rows(&self, page: &Page<RecipientPlace>) -> Result<Listed<Recipient, RecipientPlace>>;

        /// Lists the zones that recipients chose for a digest type, by key.
        async fn chosen_zones(&self, page: &Page<KeyPlace>) -> Result<Listed<(Key, String), KeyPlace>>;

        /// Counts the rows of the directory and the choices that have each zone, by its name as it was written. Reads all of them.
        #[span(tenant)]
        async fn count_zones(&self, tenant: Option<&str>) -> Result<Vec<(String, u64)>>;

        /// Reads what the store knows of a person apart from the ledger.
        #[span(person = %person)]
        async fn person(&self, person: &PersonId) -> Result<Person>;

        /// Reads a page of rows about a person, as the archive has them. `key` selects those of one digest type. An empty digest type
        /// selects what belongs to none: single messages to the person and to `addresses`, their delivery events, and the audit
        /// trail. A page may have fewer rows than its limit although another one follows.
        #[span(key = %key, part = part.name())]
        async fn held(
            &self,
            key: &Key,
            addresses: &BTreeSet<String>,
            part: Part,
            page: &Page<RowPlace>,
        ) -> Result<Listed<Value, RowPlace>>;
    }
}

pub mod held;
pub mod listing;
pub mod person;

/// `$1` JSON array of people.
pub const STRANGERS: Variants = Variants {
    sqlite: "
SELECT value->>'tenant' AS tenant, value->>'user' AS user_id FROM jsonb_each($1)
WHERE NOT EXISTS (SELECT 1 FROM recipients r WHERE r.tenant = value->>'tenant' AND r.user_id = value->>'user')",
    postgres: "
SELECT value->>'tenant' AS tenant, value->>'user' AS user_id FROM jsonb_array_elements($1::jsonb)
WHERE NOT EXISTS (SELECT 1 FROM recipients r WHERE r.tenant = value->>'tenant' AND r.user_id = value->>'user')",
};

/// `$1` tenant or empty.
pub const ZONES: &str = "
SELECT zone, COUNT(*) FROM (
    SELECT zone FROM recipients WHERE zone <> '' AND ($1 = '' OR tenant = $1)
    UNION ALL
    SELECT chosen->>'zone' FROM preferences WHERE chosen->>'zone' IS NOT NULL AND ($1 = '' OR tenant = $1)) zones
GROUP BY zone ORDER BY zone";

impl<D: Dialect> Sql<D> {
    async fn recipients(&self, filter: &RecipientFilter) -> Result<Listed<ListedRecipient, RecipientPlace>> {
        Self::list_recipients(&mut *self.reader.acquire().await?, filter).await
    }

    async fn strangers(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>> {
        let asked: Vec<_> = people.iter().collect();
        let mut connection = self.reader.acquire().await?;
        let mut strangers = BTreeSet::new();
        for page in asked.chunks(BATCH_EVENTS) {
            let rows: Vec<(String, String)> =
                query_as(D::pick(STRANGERS)).bind(json(&page)?).fetch_all(&mut *connection).await?;
            strangers.extend(rows.into_iter().map(|(tenant, user)| PersonId { tenant, user }));
        }
        connection.release();
        Ok(strangers)
    }

    async fn directory_rows(&self, page: &Page<RecipientPlace>) -> Result<Listed<Recipient, RecipientPlace>> {
        Self::list_directory(&mut *self.reader.acquire().await?, page).await
    }

    async fn chosen_zones(&self, page: &Page<KeyPlace>) -> Result<Listed<(Key, String), KeyPlace>> {
        Self::list_chosen_zones(&mut *self.reader.acquire().await?, page).await
    }

    async fn count_zones(&self, tenant: Option<&str>) -> Result<Vec<(String, u64)>> {
        let counts = query_as(ZONES).bind(tenant.unwrap_or_default().to_owned());
        let counts: Vec<(String, i64)> = counts.fetch_all(&mut *self.reader.acquire().await?).await?;
        counts.into_iter().map(|(zone, rows)| Ok((zone, number(rows)?))).collect()
    }

    async fn person(&self, person: &PersonId) -> Result<Person> {
        let mut tx = self.read().await?;
        let known = Self::read_person(&mut tx, person).await?;
        tx.commit().await?;
        Ok(known)
    }

    async fn held(
        &self,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: Part,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        let mut tx = self.read().await?;
        let rows = Self::rows_about(&mut tx, key, addresses, part, page).await?;
        tx.commit().await?;
        Ok(rows)
    }
}
