use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use tidings_model::{
    Key, PersonId,
    records::{
        KeyPlace, Listed, ListedRecipient, Page, Part, Person, Recipient, RecipientFilter, RecipientPlace, RowPlace,
    },
};

use crate::Result;

/// People and everything that is held about them.
#[async_trait]
pub trait People: Send + Sync + 'static {
    /// Lists recipients by tenant and user.
    async fn recipients(&self, filter: &RecipientFilter) -> Result<Listed<ListedRecipient, RecipientPlace>>;

    /// Returns those of the people, each once, whom the directory does not have.
    async fn strangers(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>>;

    /// Lists the rows of the directory alone, by tenant and user, at a small price for each.
    async fn directory_rows(&self, page: &Page<RecipientPlace>) -> Result<Listed<Recipient, RecipientPlace>>;

    /// Lists the zones that recipients chose for a digest type, by key.
    async fn chosen_zones(&self, page: &Page<KeyPlace>) -> Result<Listed<(Key, String), KeyPlace>>;

    /// Counts the rows of the directory and the choices that have each zone, by its name as it was written. Reads all of them.
    async fn count_zones(&self, tenant: Option<&str>) -> Result<Vec<(String, u64)>>;

    /// Reads what the store knows of a person apart from the ledger.
    async fn person(&self, person: &PersonId) -> Result<Person>;

    /// Reads a page of rows about a person, as the archive has them. `key` selects those of one digest type. An empty digest type
    /// selects what belongs to none: single messages to the person and to `addresses`, their delivery events, and the audit
    /// trail. A page may have fewer rows than its limit although another one follows.
    async fn held(
        &self,
        key: &Key,
        addresses: &BTreeSet<String>,
        part: Part,
        page: &Page<RowPlace>,
    ) -> Result<Listed<Value, RowPlace>>;
}
