//! `plan`: decides when a window is due.

use jiff::Timestamp;
use tidings_model::{
    rules::{frequency::foresee, plan::plan, returned},
    settings::StreamName,
    step::{Plan, PlanInput},
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Plans the window from the digest type's settings, the facts about the recipient, and the events so far.
///
/// # Errors
/// The store or the team's own directory cannot answer, or the digest type is not configured.
pub async fn run(deps: &Deps, input: &PlanInput) -> Result<Plan, Error> {
    let settings = deps.digest(&input.key)?;
    let facts = deps.facts(&input.key).await?;
    let known = deps.store.known_events(&input.key, &input.event_ids, input.open).await?;
    let now = now(input.asked_at.unwrap_or(Timestamp::MIN));
    // A recovery emits a returned event again, and the workflow does not know yet that events wait for a window.
    let returned = match known[..] {
        [_, ..] if input.opens_returned => deps.store.returned(&input.key).await?,
        _ => None,
    };
    let plan = plan(settings, deps.settings.frequency_limits(settings), &facts, input, known, now);
    let longest_wait = deps.settings.for_tenant(&input.key.tenant, StreamName::Bulk).stream.longest_wait();
    let plan = Plan { returned, ..returned::join(plan, settings, &facts, input, longest_wait, now) };
    let capped_until = match plan.limits.and_then(|limits| limits.cap).filter(|_| !plan.urgent) {
        Some(cap) => deps.store.capped_until(&input.key, cap, now).await?,
        None => None,
    };
    Ok(foresee(plan, settings, &facts, &input.key, capped_until, now))
}
