//! Suppressed addresses. They are folded here and not in SQL: the databases fold differently beyond ASCII.

use super::columns::row;
use super::dialect::Dialect;
use super::{Sql, no_nul, within_timeout};
use crate::{Result, Suppressions};
use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::records::{AuditEntry, Cursor, Listed, Reason, Suppression, SuppressionFilter, SuppressionPlace};
use tidings_model::{EmailAddress, Key};
use tracing::instrument;

pub const SUPPRESS: &str = "
INSERT INTO suppressions (tenant, address_lower, reason, detail, suppressed_at) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant, address_lower, reason) DO UPDATE SET detail = excluded.detail, suppressed_at = excluded.suppressed_at
WHERE suppressions.suppressed_at > excluded.suppressed_at
   OR suppressions.suppressed_at = excluded.suppressed_at AND suppressions.detail > excluded.detail";

/// `$1` tenant, `$2` address; each may be empty. `$3` pseudonym of the address. After the time `$4`, the tenant `$5`, the address `$6`
/// and the reason `$7`; `$8` limit.
pub const SUPPRESSIONS: &str = "
SELECT tenant, address_lower, reason, detail, suppressed_at FROM suppressions
WHERE (tenant = $1 OR $1 = '') AND (address_lower IN ($2, $3) OR $2 = '')
  AND (suppressed_at, tenant, address_lower, reason) < ($4, $5, $6, $7)
ORDER BY suppressed_at DESC, tenant DESC, address_lower DESC, reason DESC LIMIT $8";

/// `$2` address, `$3` its pseudonym.
pub const SUPPRESSED: &str = "
SELECT reason FROM suppressions WHERE tenant = $1 AND address_lower IN ($2, $3)
GROUP BY reason ORDER BY MIN(suppressed_at), reason";

pub const USERS_AT: &str = "SELECT user_id FROM recipients WHERE tenant = $1 AND address_lower = $2 ORDER BY user_id";

/// `$2` address, `$3` reason, `$4` pseudonym of the address.
pub const LIFT: &str = "DELETE FROM suppressions WHERE tenant = $1 AND address_lower IN ($2, $4) AND reason = $3";

#[async_trait]
impl<D: Dialect> Suppressions for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = %suppression.tenant, reason = %suppression.reason), err(level = "debug"))]
    async fn suppress(&self, suppression: &Suppression) -> Result<()> {
        within_timeout(async {
            Self::write_suppression(&mut *self.writer.acquire().await?, suppression).await.map(drop)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(count = suppressions.len()), err(level = "debug"))]
    async fn put_suppressions(&self, suppressions: &[Suppression], entry: &AuditEntry) -> Result<u64> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let mut changed = 0;
            for suppression in suppressions {
                if Self::write_suppression(&mut tx, suppression).await? {
                    let Suppression { tenant, address, reason, .. } = suppression;
                    Self::audit_address(&mut tx, tenant, &EmailAddress::folded(address), *reason, entry).await?;
                    changed += 1;
                }
            }
            tx.commit().await?;
            Ok(changed)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant), err(level = "debug"))]
    async fn lift(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>> {
        within_timeout(async {
            let address = EmailAddress::folded(address);
            let pseudonym = self.secret().await?.of(tenant, &address);
            let mut tx = self.write().await?;
            let rows = query_as(SUPPRESSED).bind(tenant.to_owned()).bind(address.clone()).bind(pseudonym.clone());
            let rows: Vec<ReasonRow> = rows.fetch_all(&mut *tx).await?;
            let reasons: Vec<_> = rows
                .iter()
                .map(|row| row.reason)
                .filter(|lifted| reason.is_none_or(|reason| reason == *lifted))
                .collect();
            for reason in &reasons {
                let lift = query(LIFT).bind(tenant.to_owned()).bind(address.clone());
                lift.bind(reason.name().to_owned()).bind(pseudonym.clone()).execute(&mut *tx).await?;
                Self::audit_address(&mut tx, tenant, &address, *reason, entry).await?;
            }
            tx.commit().await?;
            Ok(reasons)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn suppressions(&self, filter: &SuppressionFilter) -> Result<Listed<Suppression, SuppressionPlace>> {
        within_timeout(async {
            let SuppressionFilter { tenant, address, page } = filter;
            let address = EmailAddress::folded(address.as_deref().unwrap_or_default());
            // A pseudonym needs a tenant.
            let pseudonym = match tenant {
                Some(tenant) => self.secret().await?.of(tenant, &address),
                None => address.clone(),
            };
            let after = page.after.clone().map(|Cursor((at, tenant, address, reason))| {
                (at.as_millisecond(), tenant, address, reason.name().to_owned())
            });
            let (after_at, after_tenant, after_address, after_reason) =
                after.unwrap_or_else(|| (i64::MAX, String::new(), String::new(), String::new()));
            let rows = query_as(SUPPRESSIONS)
                .bind(tenant.clone().unwrap_or_default())
                .bind(address)
                .bind(pseudonym)
                .bind(after_at)
                .bind(after_tenant)
                .bind(after_address)
                .bind(after_reason)
                .bind(page.rows_to_read());
            let rows: Vec<SuppressionRow> = rows.fetch_all(&mut *self.reader.acquire().await?).await?;
            let rows = rows.into_iter().map(Suppression::from).collect();
            let place = |last: &Suppression| (last.at, last.tenant.clone(), last.address.clone(), last.reason);
            Ok(page.listed(rows, place))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant), err(level = "debug"))]
    async fn suppressed(&self, tenant: &str, address: &str) -> Result<Vec<Reason>> {
        within_timeout(async {
            let address = EmailAddress::folded(address);
            let pseudonym = self.secret().await?.of(tenant, &address);
            let statement = query_as(SUPPRESSED).bind(tenant.to_owned()).bind(address).bind(pseudonym);
            let rows: Vec<ReasonRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(|row| row.reason).collect())
        })
        .await
    }
}

impl<D: Dialect> Sql<D> {
    /// Reports if the suppression was new, or is older than what was known.
    pub(super) async fn write_suppression(connection: &mut D::Connection, suppression: &Suppression) -> Result<bool> {
        let done = query(SUPPRESS)
            .bind(&suppression.tenant)
            .bind(EmailAddress::folded(&suppression.address))
            .bind(suppression.reason.name().to_owned())
            .bind(no_nul(&suppression.detail))
            .bind(suppression.at.as_millisecond())
            .execute(connection)
            .await?;
        Ok(D::rows(&done) > 0)
    }

    /// Audits a change for each recipient with the address, or once for the tenant.
    async fn audit_address(
        connection: &mut D::Connection,
        tenant: &str,
        address: &str,
        reason: Reason,
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

row! {
/// Columns of [`SUPPRESSIONS`].
pub struct SuppressionRow {
    tenant: String,
    address_lower: String,
    reason: Reason,
    detail: String,
    suppressed_at: Timestamp,
}
}

impl From<SuppressionRow> for Suppression {
    fn from(row: SuppressionRow) -> Self {
        let SuppressionRow { tenant, address_lower: address, reason, detail, suppressed_at: at } = row;
        Self { tenant, address, reason, detail, at }
    }
}

row! {
/// Columns of [`SUPPRESSED`].
pub struct ReasonRow {
    reason: Reason,
}
}
