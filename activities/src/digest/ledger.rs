//! Steps which only write to the ledger: ends, retracts (rule 6), reopened digests (rule 30), operators'
//! commands and dead letters.

use jiff::Timestamp;
use tidings_model::{
    AlertName,
    records::{AuditActor, CloseRequest, EventExclusion},
    step::{AuditInput, CloseAnswer, CloseDigestInput, DeadLettersInput, ReopenAnswer, ReopenInput, RetractInput},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_services::{
    deps::{StepServices, now_at_least},
    error::StepError,
    metrics,
};

use super::send::returned_by;

/// Records the end. The ledger keeps the first one.
///
/// # Errors
/// If the store fails.
pub async fn close(deps: &StepServices, input: &CloseDigestInput) -> Result<CloseAnswer, StepError> {
    let CloseDigestInput { asked_at, window, events, closed, by, planned, opens_returned } = input;
    let by = AuditActor::of_login(by);
    let closing = CloseRequest {
        window,
        events,
        closed,
        by,
        return_events: false,
        planned: planned.as_ref(),
        now: now_at_least(*asked_at),
    };
    let mut ending = deps.store.close_digest(closing).await?;
    if *opens_returned {
        ending.returned = returned_by(deps, window, &ending.closed).await?;
    }
    Ok(ending)
}

/// Records each command once.
///
/// # Errors
/// If the store fails.
pub async fn audit(deps: &StepServices, input: &AuditInput) -> Result<(), StepError> {
    Ok(deps.store.record_audit(input).await?)
}

/// Records each dead letter once.
///
/// # Errors
/// If the store fails.
pub async fn dead_letters(deps: &StepServices, input: &DeadLettersInput) -> Result<(), StepError> {
    tracing::warn!(alert = %AlertName::DeadLetters, count = input.letters.len(), "malformed events");
    deps.store.put_dead_letters(input, Timestamp::now()).await?;
    metrics::dead_letters(input.letters.len() as u64);
    Ok(())
}

/// Reopens the digest, or rejects this with a reason.
///
/// # Errors
/// If the store fails.
pub async fn reopen(deps: &StepServices, input: &ReopenInput) -> Result<ReopenAnswer, StepError> {
    Ok(deps.store.reopen_digest(input, now_at_least(input.asked_at)).await?)
}

/// Removes retracted events from the window. The next claim skips events already stored or still to arrive.
///
/// # Errors
/// If the store fails.
pub async fn retract(deps: &StepServices, input: &RetractInput) -> Result<(), StepError> {
    let now = now_at_least(input.asked_at);
    // Store the events first, because a retract by id only covers events in the ledger.
    if let Some(window) = &input.window {
        exclude_retracted(deps, input, window, now).await?;
    }
    // Limit the retract to when the workflow read it; this call may be a late retry.
    Ok(deps.store.put_retracts(&input.key, &input.retracts, input.asked_at).await?)
}

async fn exclude_retracted(
    deps: &StepServices,
    input: &RetractInput,
    window: &Window,
    now: Timestamp,
) -> Result<(), StepError> {
    let window = Window { digest_id: EventExclusion::Retracted.digest_id(window), ..window.clone() };
    let closed =
        WindowEnd { outcome: DigestOutcome::Skipped, why: EventExclusion::Retracted.ledger_reason().to_owned() };
    let events = &input.events;
    let closing = CloseRequest {
        window: &window,
        events,
        closed: &closed,
        by: AuditActor::Tidings,
        return_events: false,
        planned: None,
        now,
    };
    deps.store.exclude_events(closing, input.delivering).await?;
    Ok(())
}
