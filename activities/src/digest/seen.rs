//! Queries a team's service for events in a due window the recipient has already seen (rule 20). If it fails,
//! none count as seen.

use std::collections::BTreeSet;

use tidings_model::{
    Event,
    rules::seen::{ANSWER_BYTES, MOST_EVENTS, Question, SeenResult, asked, seen},
    settings::SeenService,
    window::Window,
};
use tidings_services::{
    deps::Deps,
    error::Error,
    metrics,
    team_service::{self, NoAnswer, ask},
};

struct Failure {
    result: SeenResult,
    why: String,
}

impl From<team_service::Failure> for Failure {
    fn from(team_service::Failure { result, why }: team_service::Failure) -> Self {
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
    deps: &Deps,
    window: &Window,
    events: &[Event],
    fresh: bool,
) -> Result<BTreeSet<String>, Error> {
    let key = &window.key;
    let Some(service) = &deps.digest(key)?.seen else { return Ok(BTreeSet::new()) };
    let stored = if fresh { Vec::new() } else { deps.store.window_events(window, MOST_EVENTS).await? };
    let asked = asked(events, stored);
    if asked.is_empty() {
        return Ok(asked);
    }
    let answer = answer(service, &Question::new(key, &asked), &asked).await;
    let result = answer.as_ref().map_or_else(|failure| failure.result, |_| SeenResult::Answered);
    metrics::seen(&deps.settings, &key.digest_type, result);
    Ok(answer.unwrap_or_else(|Failure { result, why }| {
        let (host, digest_id) = (service.url.host(), window.digest_id);
        tracing::warn!(%digest_id, host, %result, why, "a service does not say which events were seen: all go out");
        BTreeSet::new()
    }))
}

async fn answer(
    service: &SeenService,
    question: &Question<'_>,
    asked: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Failure> {
    let unsigned = || Failure { result: SeenResult::Unreachable, why: format!("{} is not set", service.secret_env) };
    let secret = service.secret.as_ref().ok_or_else(unsigned)?;
    let body = serde_json::to_vec(question).map_err(team_service::Failure::from)?;
    let (status, body) = ask(&service.url, secret, team_service::Question::Post(body), ANSWER_BYTES).await?;
    let why = |result| match result {
        SeenResult::Refused => format!("the status {status}"),
        _ => "the answer has no list \"seen\"".to_owned(),
    };
    seen(status.as_u16(), &body, asked).map_err(|result| Failure { result, why: why(result) })
}
