//! A team's own directory of recipients, in place of ours. It is asked before a plan and a claim, and for a single message.
//!
//! The last answer about a person is kept in the store, as a row of our directory. Everything that needs no fresh address works with
//! the row: pages, listings, suppressions. While the directory is away, the row is used for a day.

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
    records::{Facts, Recipient},
    settings::{DirectoryUrl, FormerNames},
    webhook_secret::Secret,
    wire,
};
use tidings_store::{Queried, Store, TeamQuery};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    error::Error,
    metrics,
    recipients::{WrongValue, recipient},
    team_service::{NoAnswer, Question, ask},
};

/// An answer counts this long for all processes of the store.
pub const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// The last answer is used for this long while the directory is away. After that plans and claims wait.
pub const STALE: SignedDuration = SignedDuration::from_hours(24);
/// A directory that was not reached in time is left alone for this long.
const REST: Duration = Duration::from_secs(5);
/// Questions of a process at once. Others wait, and end at once when the directory is left alone.
const AT_ONCE: usize = 32;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 16 << 10;

/// The directory.
pub struct TeamDirectory {
    source: Source,
    names: FormerNames,
    rests_until: Mutex<Option<Instant>>,
    turns: Semaphore,
}

/// The place of the recipients.
pub enum Source {
    /// A service.
    Service(Box<Service>),
    /// A query, and the name of its database without a password.
    Query(TeamQuery, String),
}

/// A service, with the secret that signs questions.
pub struct Service {
    url: DirectoryUrl,
    secret: Secret,
}

impl Source {
    /// A service behind this address, with the secret that signs questions.
    #[must_use]
    pub fn service(url: DirectoryUrl, secret: Secret) -> Self {
        Self::Service(Box::new(Service { url, secret }))
    }
}

/// Says where recipients come from, without a secret.
impl fmt::Display for TeamDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Service(service) => write!(f, "{}", service.url),
            Source::Query(_, database) => write!(f, "the query of [directory] in {database}"),
        }
    }
}

/// The result of a look at a person whose facts were read before.
pub enum Looked {
    /// The facts hold.
    Same,
    /// The store has another row by now.
    Changed,
    /// The directory has no recipient, for this reason.
    Missing(String),
}

impl TeamDirectory {
    #[must_use]
    pub fn new(source: Source) -> Self {
        let names = FormerNames::default();
        Self { source, names, rests_until: Mutex::default(), turns: Semaphore::new(AT_ONCE) }
    }

    /// The directory, which is asked for tenants by today's names.
    #[must_use]
    pub fn with_names(self, names: FormerNames) -> Self {
        Self { names, ..self }
    }

    /// The refusal of a change of recipients.
    #[must_use]
    pub fn refusal(&self) -> String {
        format!("recipients come from the team's own directory, {self}: change the person there")
    }

    /// Looks a person up, unless the last answer is fresh, and keeps the answer.
    ///
    /// # Errors
    /// The directory is away, and no answer is young enough. The store cannot answer.
    pub async fn look_up(&self, store: &dyn Store, person: &PersonId, facts: &Facts) -> Result<Looked, Error> {
        let now = Timestamp::now();
        if has_fresh_answer(facts, now) {
            return Ok(Looked::Same);
        }
        let age = facts.answered_at.map(|at| now.duration_since(at));
        let person = &PersonId { tenant: self.names.tenant(&person.tenant).to_owned(), user: person.user.clone() };
        let answer = self.answer(person).await;
        metrics::directory_answered(answer.name());
        match answer {
            Answer::Known(recipient) => {
                store.keep_answer(person, Some(&recipient), now).await?;
                let same = age.is_some() && facts.recipient.as_ref() == Some(&recipient);
                Ok(if same { Looked::Same } else { Looked::Changed })
            }
            Answer::Unknown => self.forget(store, person, facts, now, "does not know the recipient").await,
            Answer::Wrong(why) => {
                tracing::warn!(%person, why, "the team's directory has no usable recipient");
                self.forget(store, person, facts, now, &format!("has no usable recipient: {why}")).await
            }
            Answer::Away(why) if age.is_some_and(|age| age < STALE) => {
                tracing::debug!(%person, why, "the last answer of the team's directory is used");
                Ok(Looked::Same)
            }
            Answer::Away(why) => Err(Error::Directory(why)),
        }
    }

    async fn forget(
        &self,
        store: &dyn Store,
        person: &PersonId,
        facts: &Facts,
        now: Timestamp,
        why: &str,
    ) -> Result<Looked, Error> {
        if facts.answered_at.is_some() {
            store.keep_answer(person, None, now).await?;
        }
        Ok(Looked::Missing(format!("the team's directory {why}")))
    }

    async fn answer(&self, person: &PersonId) -> Answer {
        let Ok(_turn) = self.turns.acquire().await else { return Answer::Away("the process ends".to_owned()) };
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_some_and(|until| Instant::now() < until) {
            return Answer::Away("it did not answer a moment ago".to_owned());
        }
        let (answer, reached) = match &self.source {
            Source::Service(service) => answer_of_service(service, person).await,
            Source::Query(query, _) => answer_of_query(query, person).await,
        };
        if let Answer::Away(why) = &answer {
            tracing::warn!(directory = %self, why, "the team's directory does not answer: last answers are used for a day");
        }
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = (!reached).then(|| Instant::now() + REST);
        answer
    }

    /// Checks the query. A service is not asked: there is no person to ask for.
    ///
    /// # Errors
    /// The query is wrong, or its database is away.
    pub async fn check(&self) -> Result<(), tidings_store::WrongQuery> {
        match &self.source {
            Source::Service(_) => Ok(()),
            Source::Query(query, _) => query.check().await,
        }
    }
}

/// Reports if the last answer about the person counts, so that the directory is not asked.
#[must_use]
pub fn has_fresh_answer(facts: &Facts, now: Timestamp) -> bool {
    facts.answered_at.is_some_and(|at| StoredWait::PAST.believes(at, now) && now.duration_since(at) < FRESH)
}

/// The answer, and `false` if the service could not be reached.
async fn answer_of_service(Service { url, secret }: &Service, person: &PersonId) -> (Answer, bool) {
    let Some(target) = url.target(person) else {
        return (Answer::Wrong("an id with a part . or .. cannot be in the path of the url".to_owned()), true);
    };
    match ask(url.service(), secret, Question::Get(&target), ANSWER_BYTES).await {
        Ok((status, body)) => (Answer::of_service(person, status.as_u16(), &body), true),
        Err(failure) => (Answer::Away(failure.why), failure.result == NoAnswer::Unreadable),
    }
}

/// The answer, and `false` if the database could not be reached.
async fn answer_of_query(query: &TeamQuery, person: &PersonId) -> (Answer, bool) {
    match query.ask(person).await {
        Queried::Row(row) => (Answer::of_row(person, &row), true),
        Queried::NoRow => (Answer::Unknown, true),
        Queried::Wrong(why) => (Answer::Wrong(why), true),
        Queried::Away(why) => (Answer::Away(why), false),
    }
}

/// The facts about a key, with the recipient that the team's directory gives, if the team has one.
///
/// # Errors
/// The store cannot answer, or the directory is away and no answer about the person is young enough.
pub async fn facts(directory: Option<&TeamDirectory>, store: &dyn Store, key: &Key) -> Result<Facts, Error> {
    let facts = store.facts(key).await?;
    let Some(directory) = directory else { return Ok(facts) };
    match directory.look_up(store, &PersonId::of(key), &facts).await? {
        Looked::Same => Ok(facts),
        Looked::Changed => Ok(store.facts(key).await?),
        Looked::Missing(why) => Ok(facts.without_recipient(why)),
    }
}

/// As [`facts`], for a reader: while the directory is away, the last answer is shown, however old, and
/// [`Facts::missing`] has the reason.
///
/// # Errors
/// The store cannot answer.
pub async fn look(
    directory: Option<&TeamDirectory>,
    store: &dyn Store,
    key: &Key,
) -> Result<Facts, tidings_store::Error> {
    match facts(directory, store, key).await {
        Ok(facts) => Ok(facts),
        Err(Error::Store(error)) => Err(error),
        Err(error) => {
            let facts = store.facts(key).await?;
            let why = error.to_string();
            Ok(match facts.answered_at {
                Some(_) => Facts { missing: Some(why), ..facts },
                None => facts.without_recipient(why),
            })
        }
    }
}

/// The fields that are read. Others are not, and null is empty.
const FIELDS: [&str; 4] = ["email", "name", "zone", "locale"];
/// Characters that are kept of an unknown zone. The longest name of the IANA list has 30.
const ZONE_CHARS: usize = 60;

/// The answer. No reason has a value of the answer: it may be an address.
enum Answer {
    Known(Recipient),
    Unknown,
    /// There is an answer, and no message can be sent with it: why.
    Wrong(String),
    /// An answer is missing: why.
    Away(String),
}

impl Answer {
    /// The name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known(_) => "known",
            Self::Unknown => "unknown",
            Self::Wrong(_) => "wrong",
            Self::Away(_) => "away",
        }
    }

    /// Reads the answer of a service. Only 404 says that the person is unknown. What is no JSON object may come from a proxy.
    pub fn of_service(person: &PersonId, status: u16, body: &[u8]) -> Self {
        match (status, serde_json::from_slice::<Map<String, Value>>(&wire::mended(body))) {
            (200, Ok(row)) => read(person, &row),
            (200, Err(_)) => Self::Away("the answer is not a JSON object".to_owned()),
            (404, _) => Self::Unknown,
            _ => Self::Away(format!("the status {status}")),
        }
    }

    /// Reads a row as JSON. A row that is too long was cut.
    pub fn of_row(person: &PersonId, row: &str) -> Self {
        match serde_json::from_str::<Map<String, Value>>(row) {
            Ok(row) => read(person, &row),
            Err(_) => Self::Wrong("the row is too long".to_owned()),
        }
    }
}

/// Checks the fields as an import checks a row.
fn read(person: &PersonId, row: &Map<String, Value>) -> Answer {
    for field in FIELDS {
        if !matches!(row.get(field), None | Some(Value::Null | Value::String(_))) {
            return Answer::Wrong(format!("{field} is not text"));
        }
    }
    let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    // A zone that nobody knows costs the right hour, and not the email. Every plan shows it.
    let unknown_zone = unknown_zone(&text("zone"));
    // The person has a key already.
    let checked = recipient(
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
        Ok(recipient) => Answer::Known(match unknown_zone {
            Some(zone) => Recipient { zone, ..recipient },
            None => recipient,
        }),
        Err(WrongValue { field, problem, .. }) => {
            let field = if field == "address" { "email" } else { &field };
            Answer::Wrong(format!("{field} {problem}"))
        }
    }
}

/// What can be kept and shown of a zone that no zone data has: nothing that is in no name of a zone, as it may be a part of an address.
fn unknown_zone(written: &str) -> Option<String> {
    let written = clean_edges(written);
    if written.is_empty() || known_zone(written).is_some() {
        return None;
    }
    let is_of_name = |char: &char| char.is_ascii_alphanumeric() || "/_+-".contains(*char);
    let shown: String = written.chars().take(ZONE_CHARS).take_while(is_of_name).collect();
    // The rest of it may be the name of a zone.
    let cut = if shown.len() < written.len() { "?" } else { "" };
    Some(shown + cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recipient, or the name of the answer with its reason.
    fn said(status: u16, body: &str) -> String {
        let ann = PersonId { tenant: "acme".into(), user: "ann".into() };
        match Answer::of_service(&ann, status, body.as_bytes()) {
            Answer::Known(Recipient { tenant, user, address, name, zone, locale }) => {
                [tenant, user, address, name, zone, locale].join("|")
            }
            Answer::Unknown => "unknown".to_owned(),
            Answer::Wrong(why) => format!("wrong: {why}"),
            Answer::Away(why) => format!("away: {why}"),
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
