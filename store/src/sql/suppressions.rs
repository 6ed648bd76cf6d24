//! Addresses that a tenant must not mail. They are folded here and not in SQL: the databases disagree beyond ASCII.

use jiff::Timestamp;
use sqlx::{query, query_as};
use tidings_model::{
    Key,
    records::{AuditEntry, Reason, Suppression, SuppressionFilter},
};

use super::{Dialect, Sql, columns::row, no_nul, statements};
use crate::Result;

row! {
/// Columns of [`SUPPRESSIONS`](statements::SUPPRESSIONS).
struct SuppressionRow {
    tenant: String,
    address_lower: String,
    reason: Reason,
    detail: String,
    suppressed_at: Timestamp,
}
}

row! {
/// Columns of [`SUPPRESSED`](statements::SUPPRESSED).
pub(super) struct ReasonRow {
    reason: Reason,
}
}

impl From<SuppressionRow> for Suppression {
    fn from(row: SuppressionRow) -> Self {
        let SuppressionRow { tenant, address_lower: address, reason, detail, suppressed_at: at } = row;
        Self { tenant, address, reason, detail, at }
    }
}

/// An address as all of its spellings are compared: in lower case, its domain in ASCII (RFC 5891), as on an envelope.
pub(super) fn folded(address: &str) -> String {
    let lower = address.to_lowercase();
    let domain = lower.rsplit_once('@').filter(|(_, domain)| !domain.is_ascii());
    let ascii = domain.and_then(|(local, domain)| Some(format!("{local}@{}", url::Host::parse(domain).ok()?)));
    ascii.unwrap_or(lower)
}

impl<D: Dialect> Sql<D> {
    pub(super) async fn write_suppression(connection: &mut D::Connection, suppression: &Suppression) -> Result<()> {
        query(statements::SUPPRESS)
            .bind(&suppression.tenant)
            .bind(folded(&suppression.address))
            .bind(suppression.reason.name().to_owned())
            .bind(no_nul(&suppression.detail))
            .bind(suppression.at.as_millisecond())
            .execute(connection)
            .await?;
        Ok(())
    }

    pub(super) async fn read_suppressions(&self, filter: &SuppressionFilter) -> Result<Vec<Suppression>> {
        let SuppressionFilter { tenant, address, limit } = filter;
        let rows = query_as(statements::SUPPRESSIONS)
            .bind(tenant.clone().unwrap_or_default())
            .bind(folded(address.as_deref().unwrap_or_default()))
            .bind(i64::from(*limit));
        let rows: Vec<SuppressionRow> = rows.fetch_all(&self.reader).await?;
        Ok(rows.into_iter().map(Suppression::from).collect())
    }

    /// Audited for each of the directory's users with the address, so that the audit trail needs none.
    pub(super) async fn lift_suppression(
        &self,
        tenant: &str,
        address: &str,
        reason: Option<Reason>,
        entry: &AuditEntry,
    ) -> Result<Vec<Reason>> {
        let address = folded(address);
        let mut tx = self.write().await?;
        let rows = query_as(statements::SUPPRESSED).bind(tenant.to_owned()).bind(address.clone());
        let rows: Vec<ReasonRow> = rows.fetch_all(&mut *tx).await?;
        let reasons: Vec<_> =
            rows.iter().map(|row| row.reason).filter(|lifted| reason.is_none_or(|reason| reason == *lifted)).collect();
        let users = query_as(statements::USERS_AT).bind(tenant.to_owned()).bind(address.clone());
        let mut users: Vec<(String,)> = users.fetch_all(&mut *tx).await?;
        if users.is_empty() {
            users.push((String::new(),));
        }
        for reason in &reasons {
            let lift = query(statements::LIFT).bind(tenant.to_owned()).bind(address.clone());
            lift.bind(reason.name().to_owned()).execute(&mut *tx).await?;
            for (user,) in &users {
                let key = Key { tenant: tenant.to_owned(), digest_type: String::new(), user: user.clone() };
                let entry = AuditEntry { action: format!("{} {reason}", entry.action), ..entry.clone() };
                Self::audit(&mut tx, &key, None, &entry).await?;
            }
        }
        tx.commit().await?;
        Ok(reasons)
    }
}
