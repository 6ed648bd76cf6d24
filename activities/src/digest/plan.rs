//! `plan`: decides when a window is due.

use jiff::Timestamp;
use tidings_model::{
    rules::{
        frequency::foresee,
        plan::{plan, provisional_plan},
        returned,
    },
    settings::StreamName,
    step::{Plan, PlanInput},
};

use crate::{
    deps::{Deps, now},
    error::Error,
};

/// Plans the window from the digest type's settings, the facts about the recipient, and the events so far. Without a table of the
/// digest type the plan is provisional, and the window waits at its claim (rule 33).
///
/// # Errors
/// The store or the team's own directory cannot answer.
pub async fn run(deps: &Deps, input: &PlanInput) -> Result<Plan, Error> {
    let settings = deps.settings.digest(&input.key);
    let facts = match settings {
        Some(_) => deps.facts(&input.key).await?,
        None => deps.kept_facts(&input.key).await?,
    };
    let known = deps.store.known_events(&input.key, &input.event_ids, input.open).await?;
    let now = now(input.asked_at.unwrap_or(Timestamp::MIN));
    // A recovery emits a returned event again, and the workflow does not know yet that events wait for a window.
    let returned = match known[..] {
        [_, ..] if input.opens_returned => deps.store.returned(&input.key).await?,
        _ => None,
    };
    let Some(settings) = settings else {
        return Ok(Plan { returned, ..provisional_plan(&facts, input, known, now) });
    };
    let before = input.before.as_ref();
    let input = &*input.without_provisional();
    let plan = plan(settings, deps.settings.frequency_limits(settings), &facts, input, known, now);
    let longest_wait = deps.settings.for_tenant(&input.key.tenant, StreamName::Bulk).stream.longest_wait();
    let plan = Plan { returned, ..returned::join(plan, settings, &facts, input, longest_wait, now) };
    let capped_until = match plan.limits.and_then(|limits| limits.cap).filter(|_| !plan.urgent) {
        Some(cap) => deps.store.capped_until(&input.key, cap, now).await?,
        None => None,
    };
    Ok(foresee(plan, settings, &facts, &input.key, capped_until, now).in_place_of(before))
}
