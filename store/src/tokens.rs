use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{api_token::TokenRecord, records::AuditEntry};

use crate::Result;

/// A token with the hash of its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    /// The SHA-256 of the secret, in hex.
    pub hash: String,
}

/// The tokens of the api.
#[async_trait]
pub trait Tokens: Send + Sync + 'static {
    /// Adds a token, with an entry of the audit trail. A token with this id is left unchanged.
    async fn put_token(&self, token: &StoredToken, entry: &AuditEntry) -> Result<()>;

    /// The token with this id.
    async fn token(&self, id: &str) -> Result<Option<StoredToken>>;

    /// Lists the tokens of a tenant, or all; the latest first.
    async fn tokens(&self, tenant: Option<&str>) -> Result<Vec<TokenRecord>>;

    /// Revokes a token for good, and returns it as it was before. `None`: there is no such token. Only the first call is audited and
    /// has an effect.
    async fn revoke_token(&self, id: &str, entry: &AuditEntry) -> Result<Option<TokenRecord>>;

    /// Records the day of a use.
    async fn token_used(&self, id: &str, now: Timestamp) -> Result<()>;
}
