//! `load`: claims the events of a due window, defers the window, or ends it.

use jiff::Timestamp;
use tidings_model::{
    Event,
    records::{Actor, Claim, ClaimLimits, Claimed, Closing},
    rules::admission::{Admission, admit},
    settings::Cap,
    step::{ClaimAnswer, ClaimInput, Closed, Ending, Outcome},
    words,
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Admits the window and, if admitted, claims its events under the recipient's cap.
///
/// # Errors
/// The store cannot answer, or the digest type is not configured.
pub async fn run(deps: &Deps, input: &ClaimInput) -> Result<ClaimAnswer, Error> {
    let now = now(input.asked_at);
    let window = &input.window;
    let settings = deps.digest(&window.key)?;
    let facts = deps.facts(&window.key).await?;
    match admit(settings, &facts, input, now) {
        Admission::Later { until, why } => Ok(ClaimAnswer::Later { until, why, pause: None }),
        Admission::Paused(pause) => {
            Ok(ClaimAnswer::Later { until: pause.look_at, why: pause.paused.to_string(), pause: Some(pause) })
        }
        Admission::Changed => Ok(ClaimAnswer::Changed),
        Admission::Refused(closed) => Ok(ClaimAnswer::Nothing(close(deps, input, &closed, &input.events, now).await?)),
        Admission::Admitted => {
            let cap = deps.settings.cap.filter(|_| !input.flushed && !input.urgent);
            let terms = ClaimLimits { cap, off: &facts.preferences.off, planned: input.planned.as_ref() };
            match deps.store.claim(&input.due_window(), &input.events, &terms, now).await? {
                Claimed::Capped { until } => Ok(ClaimAnswer::Later { until, why: capped(cap, until), pause: None }),
                Claimed::Claim(Claim { items, groups, taken, .. }) if items > 0 => {
                    Ok(ClaimAnswer::Claimed { items, groups, taken })
                }
                Claimed::Claim(claim) => {
                    // Events that the claim did not take are not part of this end.
                    let Ending { closed, .. } = close(deps, input, &empty(&claim), &[], now).await?;
                    Ok(ClaimAnswer::Nothing(Ending { closed, taken: claim.taken, returned: None }))
                }
            }
        }
    }
}

async fn close(
    deps: &Deps,
    input: &ClaimInput,
    closed: &Closed,
    events: &[Event],
    now: Timestamp,
) -> Result<Ending, Error> {
    let closing = Closing {
        window: &input.window,
        events,
        closed,
        by: Actor::Tidings,
        return_events: false,
        planned: input.planned.as_ref(),
        now,
    };
    Ok(deps.store.close(closing).await?)
}

fn capped(cap: Option<Cap>, until: Timestamp) -> String {
    let digests = cap.map(|Cap { most, within }| {
        format!("{most} digest{} in {}", if most == 1 { "" } else { "s" }, words::written(within))
    });
    format!("the recipient had {}, as many as they get -> {until:.0}", digests.unwrap_or_default())
}

/// The end of a window whose claim found no events of its own.
fn empty(claim: &Claim) -> Closed {
    let why = match claim.aside {
        0 => "every event was in an earlier digest",
        _ => "every event was retracted, opted out of, or in an earlier digest",
    };
    Closed { outcome: Outcome::Skipped, why: why.to_owned() }
}
