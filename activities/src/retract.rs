//! `retract`: events are taken back before the mail about them goes out (rule 6).

use tidings_workflows::contract::RetractInput;

use crate::digest::{DigestActivities, Error, now};

impl DigestActivities {
    /// The key's next claim leaves these events out, and those of them that are still to come.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn take_back(&self, input: &RetractInput) -> Result<(), Error> {
        Ok(self.store.put_retracts(&input.key, &input.retracts, now(input.asked_at)).await?)
    }
}
