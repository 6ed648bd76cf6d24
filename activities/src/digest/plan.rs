//! `plan`: decides when a window is due.

use jiff::Timestamp;
use tidings_model::{
    AlertName,
    records::KeyFacts,
    rules::{
        effective::unknown_zone,
        frequency::predict_limits,
        plan::{plan_window, provisional_plan},
        returned,
    },
    settings::{DigestSettings, StreamName},
    step::{Plan, PlanInput},
    window::THEN,
};
use tidings_services::{
    choices::capped_from,
    deps::{StepServices, now_at_least},
    error::StepError,
    metrics,
};

/// Plans the window. If the digest type is not configured, the plan is provisional and the window will wait
/// at its claim (rule 33).
///
/// # Errors
/// If the store or the team's own directory fails, or only another worker has the digest type configured.
pub async fn run(deps: &StepServices, input: &PlanInput) -> Result<Plan, StepError> {
    let settings = deps.settings.digest(&input.key);
    let facts = if settings.is_some() {
        deps.facts(&input.key).await?
    } else {
        deps.leave_to_other_worker(&input.key).await?;
        deps.kept_facts(&input.key).await?
    };
    let known = deps.store.known_events(&input.key, &input.event_ids, &input.contents, input.open).await?;
    if !known.refused.is_empty() {
        deps.store.refuse_contents(&input.key, &known.refused, Timestamp::now()).await?;
    }
    let known = known.event_ids;
    let now = now_at_least(input.asked_at.unwrap_or(Timestamp::MIN));
    // A recovery emits a returned event again, and the workflow may not know yet about events waiting for a
    // window.
    let returned = match known[..] {
        [_, ..] if input.opens_returned => deps.store.returned_events(&input.key).await?,
        _ => None,
    };
    let Some(settings) = settings else {
        return Ok(Plan { returned, ..provisional_plan(&facts, input, known, now) });
    };
    let before = input.before.as_ref();
    let input = &*input.without_provisional();
    let plan = plan_window(settings, deps.settings.frequency_limits(settings), &facts, input, known, now);
    let longest_wait = deps.settings.for_tenant(&input.key.tenant, StreamName::Bulk).stream.longest_wait();
    let plan = Plan { returned, ..returned::join_returned(plan, settings, &facts, input, longest_wait, now) };
    let cap = plan.limits.and_then(|limits| limits.cap).filter(|_| !plan.urgent);
    let capped_from = capped_from(&*deps.store, cap, &input.key, now).await?;
    let plan = predict_limits(plan, settings, &facts, &input.key, capped_from, now).in_place_of(before);
    Ok(with_unknown_zone(plan, settings, &facts, input))
}

/// Alerts operators and adds a warning, since the digest will use another zone.
fn with_unknown_zone(plan: Plan, settings: &DigestSettings, facts: &KeyFacts, input: &PlanInput) -> Plan {
    let Some((zone, in_force)) = unknown_zone(settings, facts) else { return plan };
    metrics::unknown_zone();
    tracing::warn!(alert = %AlertName::UnknownZone, key = %input.key, zone, "unknown time zone of recipient: using {in_force}");
    let words = format!("the zone {zone:?} is unknown: {in_force} counts");
    // A plan which keeps its deadline already contains the warning.
    let why = if plan.why.contains(&words) { plan.why } else { [plan.why, words].join(THEN) };
    Plan { why, ..plan }
}
