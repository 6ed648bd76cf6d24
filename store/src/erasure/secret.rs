//! The secret of the database's pseudonyms.

use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use sqlx::{query, query_as};
use tidings_model::hex;

use crate::{
    Error, Result,
    pseudonym::Pseudonyms,
    sql::{Sql, dialect::Dialect},
};

/// The name of the secret.
const ADDRESSES: &str = "addresses";
const BYTES: usize = 32;

/// The first one stays.
pub const PUT_SECRET: &str = "INSERT INTO secrets (name, value, created_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";

pub const SECRET: &str = "SELECT value FROM secrets WHERE name = $1";

impl<D: Dialect> Sql<D> {
    /// Reads the secret, or draws it. A transaction must not be open: SQLite has one connection that writes.
    pub(crate) async fn secret(&self) -> Result<Pseudonyms> {
        let pseudonyms = self.pseudonyms.get_or_try_init(|| async {
            if let Some(secret) = Self::drawn_secret(&mut *self.writer.acquire().await?).await? {
                return Ok(secret);
            }
            let mut drawn = [0; BYTES];
            let drawn = SystemRandom::new().fill(&mut drawn).map(|()| drawn);
            let drawn = drawn.map_err(|_| Error::Broken("the system has no random numbers".to_owned()))?;
            let hex = hex(&drawn);
            let put = query(PUT_SECRET).bind(ADDRESSES.to_owned()).bind(hex);
            put.bind(Timestamp::now().as_millisecond()).execute(&mut *self.writer.acquire().await?).await?;
            // Another process may have been first.
            let drawn = Self::drawn_secret(&mut *self.writer.acquire().await?).await?;
            drawn.ok_or_else(|| Error::Broken("the table secrets lost a row".to_owned()))
        });
        pseudonyms.await.cloned()
    }

    /// The secret, if it was drawn.
    pub(crate) async fn drawn_secret(connection: &mut D::Connection) -> Result<Option<Pseudonyms>> {
        let row = query_as(SECRET).bind(ADDRESSES.to_owned()).fetch_optional(connection).await?;
        Ok(row.map(|(secret,): (String,)| Pseudonyms::new(secret.as_bytes())))
    }
}
