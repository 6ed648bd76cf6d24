use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;
use tidings_model::{
    Key,
    records::{Listed, ListedRecipient, Page, Part, Person, PersonId, RecipientFilter, RecipientPlace, RowPlace},
};

use crate::Result;

/// People and everything that is held about them.
#[async_trait]
pub trait People: Send + Sync + 'static {
    /// Lists recipients by tenant and user.
    async fn recipients(&self, filter: &RecipientFilter) -> Result<Listed<ListedRecipient, RecipientPlace>>;

    /// Returns those of the people, each once, whom the directory does not have.
    async fn strangers(&self, people: &BTreeSet<PersonId>) -> Result<BTreeSet<PersonId>>;

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
