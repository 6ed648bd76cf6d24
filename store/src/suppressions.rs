//! Suppressed addresses. We fold their case here, because the databases differ beyond ASCII.

use sqlx::{query, query_as};
use tidings_model::{
    EmailAddress, Key,
    limits::BATCH_EVENTS,
    records::{
        AuditEntry, ListPage, NameKind, PageCursor, RecipientChange, Suppression, SuppressionFilter, SuppressionPlace,
        SuppressionReason,
    },
};

use crate::{
    Result,
    names::tenants,
    sql::{
        SqlStore, calls,
        columns::{column, record},
        dialect::{Dialect, StatementVariants},
        no_nul, to_json,
    },
};

calls! {
    /// Addresses a tenant must not email, compared in lower case, with their domain in ASCII.
    pub trait SuppressionStore {
        /// Keeps the earliest suppression for each reason.
        #[span(tenant = %suppression.tenant, reason = %suppression.reason)]
        async fn suppress(&self, suppression: &Suppression) -> Result<()>;

        /// Suppresses addresses for an operator. Returns how many were new or earlier than the stored one.
        /// Each of these is audited once for every recipient with the address, so the audit trail contains no
        /// address.
        #[span(count = suppressions.len())]
        async fn put_suppressions(&self, suppressions: &[Suppression], entry: &AuditEntry) -> Result<u64>;

        /// Removes an address's suppressions, or only those for `reason`, and returns the removed reasons.
        /// Audited like [`Self::put_suppressions`].
        #[span(tenant)]
        async fn lift(
            &self,
            tenant: &str,
            address: &str,
            reason: Option<SuppressionReason>,
            entry: &AuditEntry,
        ) -> Result<Vec<SuppressionReason>>;

        /// Latest first.
        #[span(tenant = filter.tenant)]
        async fn suppressions(&self, filter: &SuppressionFilter) -> Result<ListPage<Suppression, SuppressionPlace>>;

        #[span(tenant)]
        async fn suppression_reasons(&self, tenant: &str, address: &str) -> Result<Vec<SuppressionReason>>;
    }
}

/// A condition: tenant `$1`'s address `$2` (pseudonyms in the JSON array `$7`) belonged to an erased person,
/// and nobody has it today.
macro_rules! is_erased {
    ($each:literal) => {
        concat!(
            "(EXISTS (SELECT 1 FROM erased_addresses x WHERE x.pseudonym IN (",
            $each,
            ") AND x.tenant IN (SELECT t.tenant FROM ",
            tenants!(),
            " t))
  OR EXISTS (SELECT 1 FROM suppressions x WHERE x.address_lower IN (",
            $each,
            ") AND x.tenant IN (SELECT t.tenant FROM ",
            tenants!(),
            " t)))
 AND NOT EXISTS (SELECT 1 FROM recipients x WHERE x.address_lower = $2 AND x.tenant IN (SELECT t.tenant FROM ",
            tenants!(),
            " t))"
        )
    };
}

macro_rules! suppress {
    ($each:literal) => {
        concat!(
            "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at)
VALUES ($1, CASE WHEN ",
            is_erased!($each),
            " THEN $6 ELSE $2 END, $3, CASE WHEN ",
            is_erased!($each),
            " THEN '' ELSE $4 END, $5)
ON CONFLICT (tenant, address_lower, reason) DO UPDATE SET detail = excluded.detail, suppressed_at = excluded.suppressed_at
WHERE suppressions.suppressed_at > excluded.suppressed_at
   OR suppressions.suppressed_at = excluded.suppressed_at AND suppressions.detail > excluded.detail"
        )
    };
}

/// `$6` the address's pseudonym, `$7` its pseudonyms under all names of the tenant. An erased address is only
/// stored as its pseudonym, without the detail, which may name it.
pub const SUPPRESS: StatementVariants = StatementVariants {
    sqlite: suppress!("SELECT value FROM json_each($7)"),
    postgres: suppress!("SELECT jsonb_array_elements_text($7::jsonb)"),
};

pub const OTHER_TENANTS: &str = "SELECT alias FROM aliases WHERE kind = 'tenant' AND name = $1";

macro_rules! to_address {
    ($begin:literal, $end:literal) => {
        StatementVariants {
            sqlite: to_address!(each, $begin, "SELECT value FROM json_each($2)", $end),
            postgres: to_address!(each, $begin, "SELECT jsonb_array_elements_text($2::jsonb)", $end),
        }
    };
    (each, $begin:literal, $each:literal, $end:literal) => {
        concat!($begin, "tenant IN (SELECT tenant FROM ", tenants!(), " t) AND address_lower IN (", $each, ")", $end)
    };
}

macro_rules! suppressions {
    ($condition:expr) => {
        concat!(
            "
SELECT tenant, address_lower, reason, detail, suppressed_at FROM suppressions
WHERE ",
            $condition,
            " AND (suppressed_at, tenant, address_lower, reason) < ($3, $4, $5, $6)
ORDER BY suppressed_at DESC, tenant DESC, address_lower DESC, reason DESC LIMIT $7"
        )
    };
}

pub const SUPPRESSIONS: StatementVariants = StatementVariants {
    sqlite: suppressions!(concat!(
        "($1 = '' OR tenant IN (SELECT tenant FROM ",
        tenants!(),
        " t)) AND ($2 = '' OR address_lower IN (SELECT value FROM json_each(CASE WHEN $2 = '' THEN '[]' ELSE $2 END)))"
    )),
    postgres: suppressions!(concat!(
        "($1 = '' OR tenant IN (SELECT tenant FROM ",
        tenants!(),
        " t)) AND ($2 = '' OR address_lower IN (SELECT jsonb_array_elements_text(CAST(CASE WHEN $2 = '' THEN '[]' ELSE $2 END AS JSONB))))"
    )),
};

pub const SUPPRESSED: StatementVariants =
    to_address!("SELECT reason FROM suppressions WHERE ", " GROUP BY reason ORDER BY MIN(suppressed_at), reason");

pub const USERS_AT: &str = "SELECT user_id FROM recipients WHERE tenant = $1 AND address_lower = $2 ORDER BY user_id";

pub const LIFT: StatementVariants = to_address!("DELETE FROM suppressions WHERE ", " AND reason = $3");

/// `$1` JSON array of [tenant, another name for it, pseudonym there, pseudonym here]. Copies suppressions
/// from there to here.
pub const CARRY_SUPPRESSIONS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at)
SELECT k.value->>0, k.value->>3, s.reason, s.detail, s.suppressed_at
FROM {each} k JOIN suppressions s ON s.tenant = k.value->>1 AND s.address_lower = k.value->>2
WHERE TRUE
ON CONFLICT DO NOTHING";

impl<D: Dialect> SqlStore<D> {
    async fn suppress(&self, suppression: &Suppression) -> Result<()> {
        Self::write_suppression(&mut *self.writer.acquire().await?, suppression).await.map(drop)
    }

    async fn put_suppressions(&self, suppressions: &[Suppression], entry: &AuditEntry) -> Result<u64> {
        let mut tx = self.begin_write().await?;
        let mut changed = 0;
        for suppression in suppressions {
            if Self::write_suppression(&mut tx, suppression).await? {
                let Suppression { tenant, address, reason, .. } = suppression;
                Self::audit_address(&mut tx, tenant, &EmailAddress::normalize_address(address), *reason, entry).await?;
                changed += 1;
            }
        }
        tx.commit().await?;
        Ok(changed)
    }

    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<SuppressionReason>,
        entry: &AuditEntry,
    ) -> Result<Vec<SuppressionReason>> {
        let address = EmailAddress::normalize_address(address);
        let spellings = to_json(&self.address_spellings(tenant, &address).await?)?;
        let mut tx = self.begin_write().await?;
        let rows = query(D::pick_variant(SUPPRESSED)).bind(tenant.to_owned()).bind(spellings.clone());
        let mut reasons: Vec<SuppressionReason> =
            rows.try_map(|row| column(&row, "reason")).fetch_all(&mut *tx).await?;
        reasons.retain(|lifted| reason.is_none_or(|reason| reason == *lifted));
        for reason in &reasons {
            let lift = query(D::pick_variant(LIFT)).bind(tenant.to_owned()).bind(spellings.clone());
            lift.bind(reason.name().to_owned()).execute(&mut *tx).await?;
            Self::audit_address(&mut tx, tenant, &address, *reason, entry).await?;
        }
        tx.commit().await?;
        Ok(reasons)
    }

    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<ListPage<Suppression, SuppressionPlace>> {
        let SuppressionFilter { tenant, address, page } = filter;
        let address = EmailAddress::normalize_address(address.as_deref().unwrap_or_default());
        // A pseudonym can only be computed for a tenant.
        let spellings = match tenant {
            _ if address.is_empty() => String::new(),
            Some(tenant) => to_json(&self.address_spellings(tenant, &address).await?)?,
            None => to_json(&[address])?,
        };
        let after = page.after.clone().map(|PageCursor((at, tenant, address, reason))| {
            (at.as_millisecond(), tenant, address, reason.name().to_owned())
        });
        let (after_at, after_tenant, after_address, after_reason) =
            after.unwrap_or_else(|| (i64::MAX, String::new(), String::new(), String::new()));
        let rows = query(D::pick_variant(SUPPRESSIONS))
            .bind(tenant.clone().unwrap_or_default())
            .bind(spellings)
            .bind(after_at)
            .bind(after_tenant)
            .bind(after_address)
            .bind(after_reason)
            .bind(page.rows_to_read());
        let rows = self.read_records(rows).await?;
        let place = |last: &Suppression| (last.at, last.tenant.clone(), last.address.clone(), last.reason);
        Ok(page.build_page(rows, place))
    }

    async fn suppression_reasons(&self, tenant: &str, address: &str) -> Result<Vec<SuppressionReason>> {
        let address = EmailAddress::normalize_address(address);
        let spellings = to_json(&self.address_spellings(tenant, &address).await?)?;
        let reasons = query(D::pick_variant(SUPPRESSED)).bind(tenant.to_owned()).bind(spellings);
        let reasons = reasons.try_map(|row| column(&row, "reason"));
        Ok(reasons.fetch_all(&mut *self.reader.acquire().await?).await?)
    }
}

impl<D: Dialect> SqlStore<D> {
    async fn address_spellings(&self, tenant: &str, address: &str) -> Result<Vec<String>> {
        let (pseudonyms, others) = (self.pseudonym_secret().await?, self.other_names(NameKind::Tenant, tenant).await?);
        let names = [tenant].into_iter().chain(others.iter().map(String::as_str));
        Ok([address.to_owned()].into_iter().chain(names.map(|name| pseudonyms.pseudonym_of(name, address))).collect())
    }

    /// The input for [`carry_suppressions`](Self::carry_suppressions) when people are added to the directory.
    /// Reads the database, so call it outside a transaction.
    pub(super) async fn pseudonyms_elsewhere(&self, changes: &[RecipientChange]) -> Result<Vec<[String; 4]>> {
        let pseudonyms = self.pseudonym_secret().await?;
        let mut elsewhere = Vec::new();
        for RecipientChange { tenant, address, .. } in changes {
            let folded = EmailAddress::normalize_address(address);
            let pair = |other: String| {
                let there = pseudonyms.pseudonym_of(&other, &folded);
                [tenant.clone(), other, there, pseudonyms.pseudonym_of(tenant, &folded)]
            };
            elsewhere.extend(self.other_names(NameKind::Tenant, tenant).await?.into_iter().map(pair));
        }
        Ok(elsewhere)
    }

    /// If the person was erased under another name of the tenant, copies the suppressions from there, because
    /// a pseudonym is only valid under one name.
    pub(super) async fn carry_suppressions(connection: &mut D::Connection, elsewhere: &[[String; 4]]) -> Result<()> {
        for page in elsewhere.chunks(BATCH_EVENTS) {
            query(Self::expand_each(CARRY_SUPPRESSIONS)).bind(to_json(&page)?).execute(&mut *connection).await?;
        }
        Ok(())
    }

    /// Returns `true` if the suppression is new or earlier than the stored one. First looks for the address's
    /// pseudonyms.
    pub(super) async fn write_suppression(connection: &mut D::Connection, suppression: &Suppression) -> Result<bool> {
        let Suppression { tenant, address, reason, detail, at } = suppression;
        let address = EmailAddress::normalize_address(address);
        // No secret means nobody was erased yet.
        let (mut pseudonym, mut elsewhere) = (String::new(), Vec::new());
        if let Some(pseudonyms) = Self::drawn_secret(&mut *connection).await? {
            let others = query_as(OTHER_TENANTS).bind(tenant.clone()).fetch_all(&mut *connection).await?;
            let others: Vec<(String,)> = others;
            pseudonym = pseudonyms.pseudonym_of(tenant, &address);
            elsewhere.push(pseudonym.clone());
            elsewhere.extend(others.iter().map(|(other,)| pseudonyms.pseudonym_of(other, &address)));
        }
        let done = query(D::pick_variant(SUPPRESS))
            .bind(tenant)
            .bind(address)
            .bind(reason.name().to_owned())
            .bind(no_nul(detail))
            .bind(at.as_millisecond())
            .bind(pseudonym)
            .bind(to_json(&elsewhere)?)
            .execute(connection)
            .await?;
        Ok(D::changed_rows(&done) > 0)
    }

    /// Audits a change once for each recipient with the address, or once for the tenant if there is none.
    async fn audit_address(
        connection: &mut D::Connection,
        tenant: &str,
        address: &str,
        reason: SuppressionReason,
        entry: &AuditEntry,
    ) -> Result<()> {
        let users = query_as(USERS_AT).bind(tenant.to_owned()).bind(address.to_owned());
        let mut users: Vec<(String,)> = users.fetch_all(&mut *connection).await?;
        if users.is_empty() {
            users.push((String::new(),));
        }
        let entry = AuditEntry { action: format!("{} {reason}", entry.action), ..entry.clone() };
        for (user,) in users {
            let key = Key { tenant: tenant.to_owned(), digest_type: String::new(), user };
            Self::audit_change(&mut *connection, &key, None, &entry).await?;
        }
        Ok(())
    }
}

record!(row => Suppression { tenant, address = "address_lower", reason, detail, at = "suppressed_at" });
