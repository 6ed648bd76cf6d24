//! Queries a team's service for events in a due window the recipient has already seen (rule 20). If it fails,
//! none count as seen.

use std::collections::BTreeSet;

use tidings_model::{
    Event,
    rules::seen_elsewhere::{ANSWER_BYTES, MOST_EVENTS, SeenRequest, SeenResult, ids_to_check, parse_seen},
    settings::SeenService,
    window::Window,
};
use tidings_services::{
    deps::StepServices,
    error::StepError,
    metrics,
    team_service::{self, NoAnswer, send_signed},
};

struct SeenFailure {
    result: SeenResult,
    why: String,
}

impl From<team_service::ServiceFailure> for SeenFailure {
    fn from(team_service::ServiceFailure { result, why }: team_service::ServiceFailure) -> Self {
        let result = match result {
            NoAnswer::Unreachable => SeenResult::Unreachable,
            NoAnswer::TimedOut => SeenResult::TimedOut,
            NoAnswer::Unreadable => SeenResult::Unreadable,
        };
        Self { result, why }
    }
}

/// Returns the ids of seen events. A `fresh` window has no events except these.
///
/// # Errors
/// If the store fails, or the digest type is not configured.
pub(super) async fn seen_events(
    deps: &StepServices,
    window: &Window,
    events: &[Event],
    fresh: bool,
) -> Result<BTreeSet<String>, StepError> {
    let key = &window.key;
    let Some(service) = &deps.digest_settings(key)?.seen else { return Ok(BTreeSet::new()) };
    let stored = if fresh { Vec::new() } else { deps.store.window_events(window, MOST_EVENTS).await? };
    let asked = ids_to_check(events, stored);
    if asked.is_empty() {
        return Ok(asked);
    }
    let answer = query_service(service, &SeenRequest::new(key, &asked), &asked).await;
    let result = answer.as_ref().map_or_else(|failure| failure.result, |_| SeenResult::Answered);
    metrics::count_seen(&deps.settings, &key.digest_type, result);
    Ok(answer.unwrap_or_else(|SeenFailure { result, why }| {
        let (host, digest_id) = (service.url.host(), window.digest_id);
        tracing::warn!(%digest_id, host, %result, why, "a service does not say which events were seen: all go out");
        BTreeSet::new()
    }))
}

async fn query_service(
    service: &SeenService,
    question: &SeenRequest<'_>,
    asked: &BTreeSet<String>,
) -> Result<BTreeSet<String>, SeenFailure> {
    let unsigned =
        || SeenFailure { result: SeenResult::Unreachable, why: format!("{} is not set", service.secret_env) };
    let secret = service.secret.as_ref().ok_or_else(unsigned)?;
    let body = serde_json::to_vec(question).map_err(team_service::ServiceFailure::from)?;
    let (status, body) =
        send_signed(&service.url, secret, team_service::ServiceRequest::Post(body), ANSWER_BYTES).await?;
    let why = |result| match result {
        SeenResult::Refused => format!("the status {status}"),
        _ => "the answer has no list \"seen\"".to_owned(),
    };
    parse_seen(status.as_u16(), &body, asked).map_err(|result| SeenFailure { result, why: why(result) })
}
