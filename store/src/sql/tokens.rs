//! The tokens of the api. An empty tenant in a row stands for every tenant.

use super::columns::{Json, row};
use super::dialect::Dialect;
use super::{Sql, json, no_nul, or_zero, within_timeout};
use crate::tokens::StoredToken;
use crate::{Result, Tokens};
use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use sqlx::{query, query_as};
use tidings_model::Key;
use tidings_model::api_token::{Scope, TokenRecord};
use tidings_model::records::AuditEntry;
use tracing::instrument;

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

/// `$1` tenant, empty for all.
pub const TOKENS: &str = concat!(select!(), " WHERE $1 = '' OR tenant = $1 ORDER BY created_at DESC, id");

pub const REVOKE_TOKEN: &str = "UPDATE api_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL";

pub const TOKEN_USED: &str =
    "UPDATE api_tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";

#[async_trait]
impl<D: Dialect> Tokens for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(id = %token.record.id), err(level = "debug"))]
    async fn put_token(&self, token: &StoredToken, entry: &AuditEntry) -> Result<()> {
        within_timeout(async {
            let TokenRecord { id, tenant, scopes, note, created_at, created_by, expires_at, .. } = &token.record;
            let mut tx = self.write().await?;
            let put =
                query(PUT_TOKEN).bind(id.clone()).bind(token.hash.clone()).bind(tenant.clone().unwrap_or_default());
            let put = put.bind(json(scopes)?).bind(no_nul(note)).bind(created_at.as_millisecond());
            let put = put.bind(no_nul(created_by)).bind(or_zero(*expires_at));
            if D::rows(&put.execute(&mut *tx).await?) > 0 {
                Self::audit_token(&mut tx, &token.record, entry).await?;
            }
            Ok(tx.commit().await?)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(id), err(level = "debug"))]
    async fn token(&self, id: &str) -> Result<Option<StoredToken>> {
        within_timeout(async {
            let mut connection = self.reader.acquire().await?;
            let row: Option<TokenRow> = query_as(TOKEN).bind(no_nul(id)).fetch_optional(&mut *connection).await?;
            connection.release();
            Ok(row.map(StoredToken::from))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(tenant), err(level = "debug"))]
    async fn tokens(&self, tenant: Option<&str>) -> Result<Vec<TokenRecord>> {
        within_timeout(async {
            let statement = query_as(TOKENS).bind(no_nul(tenant.unwrap_or_default()));
            let rows: Vec<TokenRow> = statement.fetch_all(&mut *self.reader.acquire().await?).await?;
            Ok(rows.into_iter().map(|row| StoredToken::from(row).record).collect())
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(id), err(level = "debug"))]
    async fn revoke_token(&self, id: &str, entry: &AuditEntry) -> Result<Option<TokenRecord>> {
        within_timeout(async {
            let mut tx = self.write().await?;
            let row: Option<TokenRow> = query_as(TOKEN).bind(no_nul(id)).fetch_optional(&mut *tx).await?;
            let Some(StoredToken { record, .. }) = row.map(StoredToken::from) else { return Ok(None) };
            let revoke = query(REVOKE_TOKEN).bind(no_nul(id)).bind(entry.at.as_millisecond());
            if D::rows(&revoke.execute(&mut *tx).await?) > 0 {
                Self::audit_token(&mut tx, &record, entry).await?;
            }
            tx.commit().await?;
            Ok(Some(record))
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(id), err(level = "debug"))]
    async fn token_used(&self, id: &str, now: Timestamp) -> Result<()> {
        within_timeout(async {
            let day = now.as_millisecond().div_euclid(DAY_MILLISECONDS) * DAY_MILLISECONDS;
            let mut connection = self.writer.acquire().await?;
            query(TOKEN_USED).bind(no_nul(id)).bind(day).execute(&mut *connection).await?;
            connection.release();
            Ok(())
        })
        .await
    }
}

impl<D: Dialect> Sql<D> {
    async fn audit_token(connection: &mut D::Connection, token: &TokenRecord, entry: &AuditEntry) -> Result<()> {
        let tenant = token.tenant.clone().unwrap_or_default();
        let key = Key { tenant, digest_type: String::new(), user: String::new() };
        Self::audit_change(connection, &key, None, entry).await
    }
}

row! {
/// Columns of [`TOKEN`].
pub struct TokenRow {
    id: String,
    secret_sha256: String,
    tenant: String,
    scopes: Json<Vec<Scope>>,
    note: String,
    created_at: Timestamp,
    created_by: String,
    expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}
}

impl From<TokenRow> for StoredToken {
    fn from(row: TokenRow) -> Self {
        let record = TokenRecord {
            id: row.id,
            tenant: Some(row.tenant).filter(|tenant| !tenant.is_empty()),
            scopes: row.scopes.0,
            note: row.note,
            created_at: row.created_at,
            created_by: row.created_by,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_on: row.last_used_at.map(|at| at.to_zoned(TimeZone::UTC).date()),
        };
        Self { record, hash: row.secret_sha256 }
    }
}
