//! `load`: a due window becomes a digest, or waits, or ends.

use tidings_workflows::contract::{Closed, LoadInput, Loaded, Outcome};

use crate::{
    admit::{Admission, admit},
    digest::{DigestActivities, Error, now},
    store::Closing,
};

impl DigestActivities {
    pub async fn claim(&self, input: &LoadInput) -> Result<Loaded, Error> {
        let now = now(input.asked_at);
        let window = &input.window;
        let settings = self.digest(&window.key)?;
        let facts = self.facts(&window.key).await?;
        let refused = match admit(settings, &facts, input, now) {
            Admission::Later { until, why } => return Ok(Loaded::Later { until, why }),
            Admission::Changed => return Ok(Loaded::Changed),
            Admission::Refused(closed) => closed,
            Admission::Admitted => {
                let claim = self.store.claim(window, &input.events, now).await?;
                if claim.items > 0 {
                    return Ok(Loaded::Claimed { items: claim.items, groups: claim.groups, taken: claim.taken });
                }
                Closed { outcome: Outcome::Skipped, why: "every event was in an earlier digest".to_owned() }
            }
        };
        let closing = Closing { window, events: &input.events, closed: &refused, by: "", return_events: false, now };
        Ok(Loaded::Nothing(self.store.close(closing).await?))
    }
}
