//! People, and everything that is held about them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use tidings_model::Key;
use tidings_model::records::{
    Listed, ListedRecipient, Page, Part, Person, PersonId, RecipientFilter, RecipientPlace, RowPlace,
};
use tracing::instrument;

use super::dialect::Dialect;
use super::{Sql, within_timeout};
use crate::{People, Result};

pub mod held;
pub mod listing;
pub mod person;

#[async_trait]
impl<D: Dialect> People for Sql<D> {
    #[instrument(level = "debug", skip_all, fields(tenant = filter.tenant), err(level = "debug"))]
    async fn recipients(&self, filter: &RecipientFilter) -> Result<Listed<ListedRecipient, RecipientPlace>> {
        within_timeout(async { Self::list_recipients(&mut *self.reader.acquire().await?, filter).await }).await
    }

    #[instrument(level = "debug", skip_all, fields(person = %person), err(level = "debug"))]
    async fn person(&self, person: &PersonId) -> Result<Person> {
        within_timeout(async {
            let mut tx = self.read().await?;
            let known = Self::read_person(&mut tx, person).await?;
            tx.commit().await?;
            Ok(known)
        })
        .await
    }

    #[instrument(level = "debug", skip_all, fields(key = %key, part = part.name()), err(level = "debug"))]
    async fn held(
        &self,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: Part,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>> {
        within_timeout(async {
            let mut tx = self.read().await?;
            let rows = Self::rows_about(&mut tx, key, addresses, part, page).await?;
            tx.commit().await?;
            Ok(rows)
        })
        .await
    }
}
