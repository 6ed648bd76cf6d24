//! Subscriptions to notices: each table `[[subscribe]]`.
//!
//! The variable with the secrets may be missing. Only a worker and the test of a subscription need its value.

use std::collections::BTreeSet;

use serde::Deserialize;
use tidings_model::{
    limits,
    settings::ServiceUrl,
    subscription::{NoticeType, Subscription},
    webhook_secret::Secret,
};
use toml::Spanned;

use super::{
    former,
    list::{SpannedList, parse_each},
    problem::{Checks, Problem},
    suggest::did_you_mean,
    variable::{shown, variable_name},
};

/// Characters of a name. It is a part of a workflow id.
const NAME_CHARS: usize = 64;
const NAME: &str = "write a name of a-z, 0-9, - and _, for example \"crm\"";
const URL: &str = "write for example \"https://app.example.com/tidings/notices\"";
const VARIABLE: &str = "\"TIDINGS_SUBSCRIBE_SECRET\"";

/// The keys of `[[subscribe]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSubscribe {
    name: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    events: Option<SpannedList>,
    tenant: Option<Spanned<String>>,
    r#type: Option<Spanned<String>>,
    secret_env: Option<Spanned<String>>,
    was: Option<SpannedList>,
}

/// Checks all tables; `None` if one of them is wrong.
pub(super) fn check(raw: &[Spanned<RawSubscribe>], checks: &mut Checks<'_>) -> Option<Vec<Subscription>> {
    let mut names = BTreeSet::new();
    let subscriptions: Vec<_> = raw
        .iter()
        .map(|table| {
            let subscription = check_one(table, checks)?;
            if names.insert(subscription.name.clone()) {
                return Some(subscription);
            }
            let problem = "is the name of another subscription, too; write another name".to_owned();
            let key = "subscribe.name".to_owned();
            checks.report(Problem { place: checks.place_of(table), key, value: subscription.name, problem });
            None
        })
        .collect();
    let tables = raw
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|table: &RawSubscribe| Some((table.name.as_ref()?.as_ref().as_str(), table.was.as_ref())));
    former::check("subscribe", tables, checks)?;
    subscriptions.into_iter().collect()
}

fn check_one(table: &Spanned<RawSubscribe>, checks: &mut Checks<'_>) -> Option<Subscription> {
    let RawSubscribe { name, url, events, tenant, r#type, secret_env, was } = table.as_ref();
    let missing = |key: &str, right: &str| Problem {
        place: checks.place_of(table),
        key: format!("subscribe.{key}"),
        value: String::new(),
        problem: format!("is missing; {right}"),
    };
    let missing = [
        name.is_none().then(|| missing("name", NAME)),
        url.is_none().then(|| missing("url", URL)),
        events
            .as_ref()
            .is_none_or(|events| events.as_ref().is_empty())
            .then(|| missing("events", &format!("write for example [\"digest.failed\"]; there are {}", names()))),
        secret_env.is_none().then(|| missing("secret_env", &format!("write for example {VARIABLE}"))),
    ];
    missing.into_iter().flatten().for_each(|problem| checks.report(problem));
    let name = checks.value("subscribe.name", name.as_ref(), checked_name);
    let url = checks.value("subscribe.url", url.as_ref(), |text| ServiceUrl::read(text, URL));
    let events = events.as_ref().and_then(|events| parse_each("subscribe.events", events, checks, notice_type));
    let tenant = optional_id("tenant", tenant.as_ref(), checks);
    let digest_type = optional_id("type", r#type.as_ref(), checks);
    let (secret_env, secrets) = secrets(secret_env.as_ref()?, checks)?;
    let events: BTreeSet<_> = events?.into_iter().collect();
    Some(Subscription {
        name: name?,
        url: url?,
        events: Some(events).filter(|events| !events.is_empty())?,
        tenant: tenant?,
        digest_type: digest_type?,
        secrets,
        secret_env,
        was: was.iter().flat_map(|was| was.as_ref()).map(|name| name.as_ref().clone()).collect(),
    })
}

/// The problem of a worker that cannot sign.
pub(super) fn problem(subscription: &Subscription) -> Option<Problem> {
    subscription.secrets.is_empty().then(|| Problem {
        place: "environment".to_owned(),
        key: subscription.secret_env.clone(),
        value: String::new(),
        problem: format!(
            "is not set; set it to what `echo whsec_$(openssl rand -base64 24)` prints, here and at the receiver of \
             subscription {}",
            subscription.name
        ),
    })
}

fn checked_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.len() <= NAME_CHARS && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("is no name of at most {NAME_CHARS} characters; {NAME}"))
}

fn notice_type(text: &str) -> Result<NoticeType, String> {
    let meant = || did_you_mean(text, NoticeType::ALL.into_iter().map(NoticeType::name));
    let unknown = || format!("is not known{}; there are {}", meant(), names());
    NoticeType::named(text).ok_or_else(unknown)
}

fn names() -> String {
    NoticeType::ALL.map(NoticeType::name).join(", ")
}

#[expect(clippy::option_option, reason = "no id is right, and a wrong one is not")]
fn optional_id(key: &str, value: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<Option<String>> {
    let Some(value) = value else { return Some(None) };
    let id = |text: &str| limits::id(key, text).map(|()| text.to_owned()).map_err(|invalid| invalid.problem);
    checks.value(&format!("subscribe.{key}"), Some(value), id).map(Some)
}

/// The variable, and the secrets in it, which have spaces between them.
fn secrets(variable: &Spanned<String>, checks: &mut Checks<'_>) -> Option<(String, Vec<Secret>)> {
    let name = variable.as_ref();
    let named = variable_name(name, VARIABLE).map_err(|problem| Problem {
        place: checks.place_of(variable),
        key: "subscribe.secret_env".to_owned(),
        value: shown(name),
        problem,
    });
    checks.accept(named)?;
    let value = checks.variable(name).unwrap_or_default();
    let wrong =
        |problem| Problem { place: "environment".to_owned(), key: name.clone(), value: "***".to_owned(), problem };
    let secrets: Result<Vec<_>, _> = value.split_whitespace().map(Secret::parse).collect();
    Some((name.clone(), checks.accept(secrets.map_err(wrong))?))
}
