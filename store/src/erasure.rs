use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    Key, PersonId,
    records::{Cursor, Erased, Page, RowPlace},
};

use crate::{Result, pseudonym::Pseudonyms};

/// The erasure of a person, step by step. Each call is one transaction, or a page of one step, and a repeated call goes on with
/// what is left. The steps belong in the order of the methods: an address is known as long as a message or the directory has it.
#[async_trait]
pub trait Erasure: Send + Sync + 'static {
    /// The pseudonyms of addresses in this database.
    async fn pseudonyms(&self) -> Result<Pseudonyms>;

    /// Those of the addresses that no other person in the tenant's directory has. The steps take only these: what belongs to another
    /// person as well stays.
    async fn own_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<BTreeSet<String>>;

    /// Counts the rows that the steps would change, and those that the archive has not.
    async fn erasable(
        &self,
        person: &PersonId,
        types: &BTreeSet<String>,
        addresses: &BTreeSet<String>,
    ) -> Result<Erased>;

    /// Gives suppressions and delivery events a pseudonym instead of the address. A suppression goes on holding if the address
    /// comes back.
    async fn erase_addresses(&self, person: &PersonId, addresses: &BTreeSet<String>) -> Result<Erased>;

    /// Ends digests of a key that have no end, and erases their events, messages, attempts and delivery events, a few digests a
    /// call. Nothing is left if it changes nothing.
    async fn erase_digests(&self, key: &Key, now: Timestamp) -> Result<Erased>;

    /// Ends and erases single messages to the person, and those without a user to one of the addresses, among the single messages
    /// of a page. Returns the cursor of the next page.
    async fn erase_messages(
        &self,
        person: &PersonId,
        addresses: &BTreeSet<String>,
        page: &Page<RowPlace>,
        now: Timestamp,
    ) -> Result<(Erased, Option<Cursor<RowPlace>>)>;

    /// Deletes preferences, consents, retracts and dead letters of the person's keys, and dead letters of webhooks that name one of
    /// the person's messages.
    async fn erase_choices(&self, person: &PersonId, types: &BTreeSet<String>) -> Result<Erased>;

    /// Deletes the row of the directory.
    async fn erase_recipient(&self, person: &PersonId) -> Result<Erased>;
}
