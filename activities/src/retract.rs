//! `retract`: events are taken back before the mail about them goes out (rule 6).

use tidings_model::{
    contract::{Closed, Outcome, RetractInput, Window},
    records::{Closing, RETRACTED, retracted},
};

use crate::digest::{DigestActivities, Error, now};

impl DigestActivities {
    /// Those that are in the window leave it; those that are in the store, or still to come, are left out of the next claim.
    ///
    /// # Errors
    /// The store cannot answer.
    pub async fn take_back(&self, input: &RetractInput) -> Result<(), Error> {
        let now = now(input.asked_at);
        self.store.put_retracts(&input.key, &input.retracts, now).await?;
        let Some(window) = &input.window else { return Ok(()) };
        let window = Window { digest_id: retracted(window), ..window.clone() };
        let closed = Closed { outcome: Outcome::Skipped, why: RETRACTED.to_owned() };
        let events = &input.events;
        let closing = Closing { window: &window, events, closed: &closed, by: "", return_events: false, now };
        self.store.set_aside(closing, input.delivering).await?;
        Ok(())
    }
}
