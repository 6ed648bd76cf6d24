//! `load`: a due window becomes a digest, or waits, or ends.

use jiff::Timestamp;
use tidings_model::{
    Event,
    contract::{Closed, Ending, LoadInput, Loaded, Outcome},
    records::{Claim, Claimed, Closing, Terms},
    rules::admission::{Admission, admit},
    settings::Cap,
    words,
};

use crate::digest::{DigestActivities, Error, now};

impl DigestActivities {
    pub async fn claim(&self, input: &LoadInput) -> Result<Loaded, Error> {
        let now = now(input.asked_at);
        let window = &input.window;
        let settings = self.digest(&window.key)?;
        let facts = self.facts(&window.key).await?;
        let end = async |closed: &Closed, events: &[Event]| {
            self.store.close(Closing { window, events, closed, by: "", return_events: false, now }).await
        };
        match admit(settings, &facts, input, now) {
            Admission::Later { until, why } => Ok(Loaded::Later { until, why }),
            Admission::Changed => Ok(Loaded::Changed),
            Admission::Refused(closed) => Ok(Loaded::Nothing(end(&closed, &input.events).await?)),
            Admission::Admitted => {
                let cap = self.settings.cap.filter(|_| !input.flushed && !input.urgent);
                let terms = Terms { cap, off: &facts.preferences.off };
                match self.store.claim(window, &input.events, &terms, now).await? {
                    Claimed::Capped { until } => Ok(Loaded::Later { until, why: capped(cap, until) }),
                    Claimed::Claim(Claim { items, groups, taken, .. }) if items > 0 => {
                        Ok(Loaded::Claimed { items, groups, taken })
                    }
                    Claimed::Claim(claim) => {
                        // What the claim did not take is not part of this end.
                        let Ending { closed, .. } = end(&nothing(claim), &[]).await?;
                        Ok(Loaded::Nothing(Ending { closed, taken: claim.taken }))
                    }
                }
            }
        }
    }
}

fn capped(cap: Option<Cap>, until: Timestamp) -> String {
    let digests = cap.map(|Cap { most, within }| {
        format!("{most} digest{} in {}", if most == 1 { "" } else { "s" }, words::written(within))
    });
    format!("the recipient had {}, as many as they get -> {until:.0}", digests.unwrap_or_default())
}

/// The end of a window that has no events of its own.
fn nothing(claim: Claim) -> Closed {
    let why = match claim.aside {
        0 => "every event was in an earlier digest",
        _ => "every event was retracted, opted out of, or in an earlier digest",
    };
    Closed { outcome: Outcome::Skipped, why: why.to_owned() }
}
