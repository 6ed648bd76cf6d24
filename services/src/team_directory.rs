//! Looks up recipients in a team's own directory before each plan and claim, and for each single message.
//!
//! We store the last response as a row in our directory. Everything which needs no fresh address uses this
//! row, e.g. pages and suppressions, and while the directory is not responding we use it for a day.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tidings_model::{
    Key, PersonId, StoredWait,
    foreign_text::clean_edges,
    known_zone,
    records::{KeyFacts, Recipient},
    settings::{DirectoryUrl, FormerNames},
    webhook_secret::SigningSecret,
    wire,
};
use tidings_store::{Store, TeamQuery, TeamQueryOutcome};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    error::StepError,
    metrics,
    recipients::{WrongValue, validate_recipient},
    team_service::{NoAnswer, ServiceRequest, send_signed},
};

/// How long a response stays fresh, for all processes sharing the store.
pub const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// How long to use the last response during an outage. After this, plans and claims wait.
pub const STALE: SignedDuration = SignedDuration::from_hours(24);
/// How long to back off after the directory could not be reached in time.
const REST: Duration = Duration::from_secs(5);
/// Concurrent lookups per process. Further lookups queue, and fail at once during a backoff.
const AT_ONCE: usize = 32;
const ANSWER_BYTES: usize = 16 << 10;

pub struct TeamDirectory {
    source: DirectorySource,
    names: FormerNames,
    rests_until: Mutex<Option<Instant>>,
    turns: Semaphore,
}

pub enum DirectorySource {
    Service(Box<DirectoryService>),
    Query(TeamQuery, String),
}

pub struct DirectoryService {
    url: DirectoryUrl,
    secret: SigningSecret,
}

impl DirectorySource {
    #[must_use]
    pub fn service(url: DirectoryUrl, secret: SigningSecret) -> Self {
        Self::Service(Box::new(DirectoryService { url, secret }))
    }
}

impl fmt::Display for TeamDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            DirectorySource::Service(service) => write!(f, "{}", service.url),
            DirectorySource::Query(_, database) => write!(f, "the query of [directory] in {database}"),
        }
    }
}

pub enum DirectoryLookup {
    Same,
    Changed,
    Missing(String),
}

impl TeamDirectory {
    #[must_use]
    pub fn new(source: DirectorySource) -> Self {
        let names = FormerNames::default();
        Self { source, names, rests_until: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    #[must_use]
    pub fn with_names(self, names: FormerNames) -> Self {
        Self { names, ..self }
    }

    #[must_use]
    pub fn refusal_text(&self) -> String {
        format!("recipients come from the team's own directory, {self}: change the person there")
    }

    /// Looks a person up unless the last response is fresh, and stores the response.
    ///
    /// # Errors
    /// If the directory is not responding and the last response is too old, or the store fails.
    pub async fn look_up(
        &self,
        store: &dyn Store,
        person: &PersonId,
        facts: &KeyFacts,
    ) -> Result<DirectoryLookup, StepError> {
        let now = Timestamp::now();
        if has_fresh_answer(facts, now) {
            return Ok(DirectoryLookup::Same);
        }
        let age = facts.answered_at.map(|at| now.duration_since(at));
        let person = &PersonId { tenant: self.names.tenant(&person.tenant).to_owned(), user: person.user.clone() };
        let answer = self.query_person(person).await;
        metrics::directory_answered(answer.name());
        match answer {
            DirectoryResponse::Known(recipient) => {
                store.keep_answer(person, Some(&recipient), now).await?;
                let same = age.is_some() && facts.recipient.as_ref() == Some(&recipient);
                Ok(if same { DirectoryLookup::Same } else { DirectoryLookup::Changed })
            }
            DirectoryResponse::Unknown => self.forget(store, person, facts, now, "does not know the recipient").await,
            DirectoryResponse::Wrong(why) => {
                tracing::warn!(%person, why, "team directory has no usable recipient");
                self.forget(store, person, facts, now, &format!("has no usable recipient: {why}")).await
            }
            DirectoryResponse::Away(why) if age.is_some_and(|age| age < STALE) => {
                tracing::debug!(%person, why, "the last answer of the team's directory is used");
                Ok(DirectoryLookup::Same)
            }
            DirectoryResponse::Away(why) => Err(StepError::Directory(why)),
        }
    }

    async fn forget(
        &self,
        store: &dyn Store,
        person: &PersonId,
        facts: &KeyFacts,
        now: Timestamp,
        why: &str,
    ) -> Result<DirectoryLookup, StepError> {
        if facts.answered_at.is_some() {
            store.keep_answer(person, None, now).await?;
        }
        Ok(DirectoryLookup::Missing(format!("the team's directory {why}")))
    }

    async fn query_person(&self, person: &PersonId) -> DirectoryResponse {
        let Ok(_turn) = self.turns.acquire().await else {
            return DirectoryResponse::Away("the process ends".to_owned());
        };
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| Instant::now() < until) {
            return DirectoryResponse::Away("it did not answer a moment ago".to_owned());
        }
        let (answer, reached) = match &self.source {
            DirectorySource::Service(service) => answer_of_service(service, person).await,
            DirectorySource::Query(query, _) => answer_of_query(query, person).await,
        };
        if let DirectoryResponse::Away(why) = &answer {
            tracing::warn!(directory = %self, why, "team directory does not respond: using its last answers for a day");
        }
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = (!reached).then(|| Instant::now() + REST);
        answer
    }

    /// Checks the query. Does not call a service, because there is no person to look up.
    ///
    /// # Errors
    /// If the query is invalid, or its database cannot be reached.
    pub async fn check(&self) -> Result<(), tidings_store::WrongQuery> {
        match &self.source {
            DirectorySource::Service(_) => Ok(()),
            DirectorySource::Query(query, _) => query.check_query().await,
        }
    }
}

#[must_use]
pub fn has_fresh_answer(facts: &KeyFacts, now: Timestamp) -> bool {
    facts.answered_at.is_some_and(|at| StoredWait::PAST.is_plausible(at, now) && now.duration_since(at) < FRESH)
}

async fn answer_of_service(
    DirectoryService { url, secret }: &DirectoryService,
    person: &PersonId,
) -> (DirectoryResponse, bool) {
    let Some(target) = url.target(person) else {
        return (
            DirectoryResponse::Wrong("an id with a part . or .. cannot be in the path of the url".to_owned()),
            true,
        );
    };
    match send_signed(url.service(), secret, ServiceRequest::Get(&target), ANSWER_BYTES).await {
        Ok((status, body)) => (DirectoryResponse::of_service(person, status.as_u16(), &body), true),
        Err(failure) => (DirectoryResponse::Away(failure.why), failure.result == NoAnswer::Unreadable),
    }
}

async fn answer_of_query(query: &TeamQuery, person: &PersonId) -> (DirectoryResponse, bool) {
    match query.look_up(person).await {
        TeamQueryOutcome::Row(row) => (DirectoryResponse::of_row(person, &row), true),
        TeamQueryOutcome::NoRow => (DirectoryResponse::Unknown, true),
        TeamQueryOutcome::Wrong(why) => (DirectoryResponse::Wrong(why), true),
        TeamQueryOutcome::Away(why) => (DirectoryResponse::Away(why), false),
    }
}

/// Reads a key's facts, with the recipient from the team's directory if configured.
///
/// # Errors
/// If the store fails, or the directory is not responding and the last response is too old.
pub async fn facts(directory: Option<&TeamDirectory>, store: &dyn Store, key: &Key) -> Result<KeyFacts, StepError> {
    let facts = store.facts(key).await?;
    let Some(directory) = directory else { return Ok(facts) };
    match directory.look_up(store, &PersonId::from_key(key), &facts).await? {
        DirectoryLookup::Same => Ok(facts),
        DirectoryLookup::Changed => Ok(store.facts(key).await?),
        DirectoryLookup::Missing(why) => Ok(facts.without_recipient(why)),
    }
}

/// Like [`facts`] but for display: during an outage, returns the last response regardless of its age, and
/// sets [`KeyFacts::missing`].
///
/// # Errors
/// If the store fails.
pub async fn facts_for_display(
    directory: Option<&TeamDirectory>,
    store: &dyn Store,
    key: &Key,
) -> Result<KeyFacts, tidings_store::StoreError> {
    match facts(directory, store, key).await {
        Ok(facts) => Ok(facts),
        Err(StepError::Store(error)) => Err(error),
        Err(error) => {
            let facts = store.facts(key).await?;
            let why = error.to_string();
            Ok(match facts.answered_at {
                Some(_) => KeyFacts { missing: Some(why), ..facts },
                None => facts.without_recipient(why),
            })
        }
    }
}

/// Fields we read. Others are ignored, and null counts as empty.
const FIELDS: [&str; 4] = ["email", "name", "zone", "locale"];
/// How many characters of an unknown time zone to keep. The longest IANA name has 30.
const ZONE_CHARS: usize = 60;

enum DirectoryResponse {
    Known(Recipient),
    Unknown,
    Wrong(String),
    Away(String),
}

impl DirectoryResponse {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known(_) => "known",
            Self::Unknown => "unknown",
            Self::Wrong(_) => "wrong",
            Self::Away(_) => "away",
        }
    }

    /// Parses a service's response. Only 404 means an unknown person. A body without a JSON object may come
    /// from a proxy.
    pub fn of_service(person: &PersonId, status: u16, body: &[u8]) -> Self {
        match (status, serde_json::from_slice::<Map<String, Value>>(&wire::repair_json(body))) {
            (200, Ok(row)) => parse_fields(person, &row),
            (200, Err(_)) => Self::Away("the answer is not a JSON object".to_owned()),
            (404, _) => Self::Unknown,
            _ => Self::Away(format!("the status {status}")),
        }
    }

    pub fn of_row(person: &PersonId, row: &str) -> Self {
        match serde_json::from_str::<Map<String, Value>>(row) {
            Ok(row) => parse_fields(person, &row),
            Err(_) => Self::Wrong("the row is too long".to_owned()),
        }
    }
}

fn parse_fields(person: &PersonId, row: &Map<String, Value>) -> DirectoryResponse {
    for field in FIELDS {
        if !matches!(row.get(field), None | Some(Value::Null | Value::String(_))) {
            return DirectoryResponse::Wrong(format!("{field} is not text"));
        }
    }
    let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    // An unknown time zone only costs the right hour, so we still send the email. Every plan shows it.
    let unknown_zone = unknown_zone(&text("zone"));
    // We have the person's key, so the ids are valid.
    let checked = validate_recipient(
        &FormerNames::default(),
        |_| BTreeSet::new(),
        |column| {
            Some(match column {
                "tenant" => person.tenant.clone(),
                "user" => person.user.clone(),
                "address" => text("email"),
                "zone" if unknown_zone.is_some() => String::new(),
                field => text(field),
            })
        },
    );
    match checked.map(Recipient::from) {
        Ok(recipient) => DirectoryResponse::Known(match unknown_zone {
            Some(zone) => Recipient { zone, ..recipient },
            None => recipient,
        }),
        Err(WrongValue { field, problem, .. }) => {
            let field = if field == "address" { "email" } else { &field };
            DirectoryResponse::Wrong(format!("{field} {problem}"))
        }
    }
}

/// Keeps only characters used in zone names, because the text may be part of an address.
fn unknown_zone(written: &str) -> Option<String> {
    let written = clean_edges(written);
    if written.is_empty() || known_zone(written).is_some() {
        return None;
    }
    let is_of_name = |char: &char| char.is_ascii_alphanumeric() || "/_+-".contains(*char);
    let shown: String = written.chars().take(ZONE_CHARS).take_while(is_of_name).collect();
    // The truncated text might look like a valid zone name.
    let cut = if shown.len() < written.len() { "?" } else { "" };
    Some(shown + cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recipient, or the name of the answer with its reason.
    fn said(status: u16, body: &str) -> String {
        let ann = PersonId { tenant: "acme".into(), user: "ann".into() };
        match DirectoryResponse::of_service(&ann, status, body.as_bytes()) {
            DirectoryResponse::Known(Recipient { tenant, user, address, name, zone, locale }) => {
                [tenant, user, address, name, zone, locale].join("|")
            }
            DirectoryResponse::Unknown => "unknown".to_owned(),
            DirectoryResponse::Wrong(why) => format!("wrong: {why}"),
            DirectoryResponse::Away(why) => format!("away: {why}"),
        }
    }

    #[test]
    fn an_answer_is_a_recipient_or_says_why_it_is_not() {
        let ann = r#"{"email": "ann@acme.example", "name": "Ann", "zone": "Asia/Tokyo", "locale": "ja", "id": 7}"#;
        for (status, body, expected) in [
            (200, ann, "acme|ann|ann@acme.example|Ann|Asia/Tokyo|ja"),
            (200, r#"{"email": "ann@acme.example", "zone": null}"#, "acme|ann|ann@acme.example|||"),
            (200, r#"{"address": "ann@acme.example"}"#, "wrong: email is required"),
            (200, r#"{"email": "hanako.@docomo.ne.jp"}"#, "acme|ann|hanako.@docomo.ne.jp|||"),
            (200, r#"{"email": "v@[127.0.0.1]"}"#, "wrong: email has an IP address after the @"),
            (200, r#"{"email": "ann at acme"}"#, "wrong: email is not an address; write for example"),
            (200, r#"{"email": "a@b.example\r\nBcc: c@d.example"}"#, "wrong: email is not an address"),
            (200, r#"{"email": ["ann@acme.example"]}"#, "wrong: email is not text"),
            (
                200,
                r#"{"email": "ann@acme.example", "zone": "Asia/Calcutta"}"#,
                "acme|ann|ann@acme.example||Asia/Kolkata|",
            ),
            (
                200,
                r#"{"email": "ann@acme.example", "zone": " Europe/Berln "}"#,
                "acme|ann|ann@acme.example||Europe/Berln|",
            ),
            (200, r#"{"email": "ann@acme.example", "zone": "local\u0000time"}"#, "acme|ann|ann@acme.example||local?|"),
            (200, r#"{"email": "ann@acme.example", "name": "A\u0000nn"}"#, "wrong: name has a NUL"),
            (200, "[]", "away: the answer is not a JSON object"),
            (200, "<html>", "away: the answer is not a JSON object"),
            (404, "<html>", "unknown"),
            (307, ann, "away: the status 307"),
            (503, "", "away: the status 503"),
        ] {
            let said = said(status, body);
            assert!(said.starts_with(expected), "{body}: {said}");
            assert!(!said.contains("ann at") && !said.contains("d.example"), "{said}");
        }
    }
}
