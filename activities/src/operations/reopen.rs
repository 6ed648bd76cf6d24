//! The digest of a key that a reopen without an id means.

use tidings_model::{Key, records::DigestRecord, step::Outcome};
use tidings_store::{Result, Store};

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

/// Reports that a digest ended in a way that a reopen may undo.
#[must_use]
pub fn can_be_reopened(digest: &DigestRecord) -> bool {
    digest.closed.as_ref().is_some_and(|closed| OUTCOMES.contains(&closed.outcome))
}
