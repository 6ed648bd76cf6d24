use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use tidings_model::{
    records::{NameKind, PersonId, StoredName},
    settings::FormerNames,
};

use crate::Result;

/// The names of digest types and tenants. What was stored under a name counts under each name that means the same.
#[async_trait]
pub trait Names: Send + Sync + 'static {
    /// Keeps which names mean the same, as a file says, which has tables of these names. What other files said stays, for an older
    /// file may be in use beside this one or come back; but two names that one file has tables of mean two things again. A repeated
    /// call changes nothing.
    async fn put_names(&self, names: &FormerNames, tables: &BTreeMap<NameKind, BTreeSet<String>>) -> Result<()>;

    /// The person under each name of the tenant, this one first.
    async fn same_person(&self, person: &PersonId) -> Result<Vec<PersonId>>;

    /// Each name that something hangs on, with how much. Reads whole tables.
    async fn stored_names(&self) -> Result<Vec<StoredName>>;

    /// The names of digest types, tenants, relays and subscriptions under which there may be something, in no time.
    async fn names_in_use(&self) -> Result<Vec<(NameKind, String)>>;
}
