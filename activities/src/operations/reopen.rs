//! The digest of a key that a reopen means, and the name that the key has there.

use tidings_model::{Key, records::DigestRecord, settings::FormerNames, window::Outcome};
use tidings_store::{Result, Store};
use uuid::Uuid;

/// Ended digests of a key among which the latest is searched.
const DIGESTS: u32 = 10;

/// The outcomes of digests that can be reopened.
pub const OUTCOMES: [Outcome; 4] = [Outcome::Dropped, Outcome::Failed, Outcome::Ambiguous, Outcome::Unknown];

/// Returns the latest digest of the key that has an end.
///
/// # Errors
/// The store cannot answer.
pub async fn latest(store: &dyn Store, key: &Key) -> Result<Option<DigestRecord>> {
    let digests = store.digests(key, DIGESTS).await?;
    Ok(digests.into_iter().find(|digest| digest.closed.is_some()))
}

/// Returns the latest digest with an end under any name of the key.
///
/// # Errors
/// The store cannot answer.
pub async fn latest_under_each_name(store: &dyn Store, names: &FormerNames, key: &Key) -> Result<Option<DigestRecord>> {
    let mut found: Option<DigestRecord> = None;
    for name in names.keys(key) {
        found = found.into_iter().chain(latest(store, &name).await?).max_by_key(|digest| digest.opened_at);
    }
    Ok(found)
}

/// Returns the name of the key that has the digest: only its workflow reopens it. A digest that the store does not know is of today's.
///
/// # Errors
/// The store cannot answer.
pub async fn name_of(store: &dyn Store, names: &FormerNames, key: &Key, digest_id: Uuid) -> Result<Key> {
    let found = store.digest(digest_id).await?.map(|digest| digest.key);
    let today = names.today(key);
    Ok(found.filter(|found| names.today(found) == today).unwrap_or(today))
}

/// Reports that a digest ended in a way that a reopen may undo.
#[must_use]
pub fn can_be_reopened(digest: &DigestRecord) -> bool {
    digest.closed.as_ref().is_some_and(|closed| OUTCOMES.contains(&closed.outcome))
}
