//! `reopen`: a digest that came to nothing is sent after all (rule 30).

use tidings_model::contract::{ReopenInput, Resumed};

use crate::digest::{DigestActivities, Error, now};

impl DigestActivities {
    /// Gives the digest back to its workflow, or says why not.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn resume(&self, input: &ReopenInput) -> Result<Resumed, Error> {
        Ok(self.store.reopen(input, now(input.asked_at)).await?)
    }
}
