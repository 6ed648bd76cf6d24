//! API tokens. In a row, an empty tenant means all tenants.

use jiff::{Timestamp, tz::TimeZone};
use sqlx::query;
use tidings_model::{api_token::TokenRecord, records::AuditEntry};

use crate::{
    Result,
    sql::{
        SqlStore, calls,
        columns::{JsonColumn, column, record},
        dialect::Dialect,
        no_nul, or_zero, to_json,
    },
};

calls! {
    pub trait TokenStore {
        /// Adds and audits a token. An existing token with this id stays unchanged.
        #[span(id = %token.record.id)]
        async fn put_token(&self, token: &StoredToken, entry: &AuditEntry) -> Result<()>;

        #[span(id)]
        async fn token(&self, id: &str) -> Result<Option<StoredToken>>;

        #[span(tenant)]
        async fn tokens(&self, tenant: Option<&str>) -> Result<Vec<TokenRecord>>;

        /// Revokes a token permanently. Returns it as before, or `None` if there is none. Only the first call
        /// counts and is audited.
        #[span(id)]
        async fn revoke_token(&self, id: &str, entry: &AuditEntry) -> Result<Option<TokenRecord>>;

        #[span(id)]
        async fn token_used(&self, id: &str, now: Timestamp) -> Result<()>;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    /// SHA-256 of the secret, in hex.
    pub hash: String,
}

const DAY_MILLISECONDS: i64 = 24 * 3_600_000;

pub const PUT_TOKEN: &str = "
INSERT INTO api_tokens (id, secret_sha256, tenant, scopes, note, created_at, created_by, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, NULLIF($8, 0)) ON CONFLICT DO NOTHING";

macro_rules! select {
    () => {
        "
SELECT id, secret_sha256, tenant, scopes, note, created_at, created_by, expires_at, revoked_at, last_used_at FROM api_tokens"
    };
}

pub const TOKEN: &str = concat!(select!(), " WHERE id = $1");

pub const TOKENS: &str = concat!(select!(), " WHERE $1 = '' OR tenant = $1 ORDER BY created_at DESC, id");

pub const REVOKE_TOKEN: &str = "UPDATE api_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";

pub const TOKEN_USED: &str =
    "UPDATE api_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";

impl<D: Dialect> SqlStore<D> {
    async fn put_token(&self, token: &StoredToken, entry: &AuditEntry) -> Result<()> {
        let TokenRecord { id, tenant, scopes, note, created_at, created_by, expires_at, .. } = &token.record;
        let mut tx = self.begin_write().await?;
        let put = query(PUT_TOKEN).bind(id.clone()).bind(token.hash.clone()).bind(tenant.clone().unwrap_or_default());
        let put = put.bind(to_json(scopes)?).bind(no_nul(note)).bind(created_at.as_millisecond());
        let put = put.bind(no_nul(created_by)).bind(or_zero(*expires_at));
        if D::changed_rows(&put.execute(&mut *tx).await?) > 0 {
            Self::audit_tenant(&mut tx, tenant.as_deref().unwrap_or_default(), entry).await?;
        }
        Ok(tx.commit().await?)
    }

    async fn token(&self, id: &str) -> Result<Option<StoredToken>> {
        let mut connection = self.reader.acquire().await?;
        let token = query(TOKEN).bind(no_nul(id)).try_map(Self::to_record).fetch_optional(&mut *connection).await?;
        connection.release();
        Ok(token)
    }

    async fn tokens(&self, tenant: Option<&str>) -> Result<Vec<TokenRecord>> {
        let tokens = query(TOKENS).bind(no_nul(tenant.unwrap_or_default()));
        self.read_records(tokens).await
    }

    async fn revoke_token(&self, id: &str, entry: &AuditEntry) -> Result<Option<TokenRecord>> {
        let mut tx = self.begin_write().await?;
        let token = query(TOKEN).bind(no_nul(id)).try_map(Self::to_record);
        let Some::<TokenRecord>(record) = token.fetch_optional(&mut *tx).await? else { return Ok(None) };
        let revoke = query(REVOKE_TOKEN).bind(no_nul(id)).bind(entry.at.as_millisecond());
        if D::changed_rows(&revoke.execute(&mut *tx).await?) > 0 {
            Self::audit_tenant(&mut tx, record.tenant.as_deref().unwrap_or_default(), entry).await?;
        }
        tx.commit().await?;
        Ok(Some(record))
    }

    async fn token_used(&self, id: &str, now: Timestamp) -> Result<()> {
        let day = now.as_millisecond().div_euclid(DAY_MILLISECONDS) * DAY_MILLISECONDS;
        let mut connection = self.writer.acquire().await?;
        query(TOKEN_USED).bind(no_nul(id)).bind(day).execute(&mut *connection).await?;
        connection.release();
        Ok(())
    }
}

record!(row => StoredToken { record: TokenRecord::read::<D>(row)?, hash = "secret_sha256" });

record!(row => TokenRecord {
    id,
    tenant: Some(column(row, "tenant")?).filter(|tenant: &String| !tenant.is_empty()),
    scopes: column(row, "scopes").map(|JsonColumn(scopes)| scopes)?,
    note,
    created_at,
    created_by,
    expires_at,
    revoked_at,
    last_used_on: column::<_, Option<Timestamp>>(row, "last_used_at")?.map(|at| at.to_zoned(TimeZone::UTC).date()),
});
