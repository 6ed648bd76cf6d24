//! Subscriptions to notices: the tables `[[subscribe]]`.
//!
//! The secrets may be unset here. Only a worker and the test for a subscription need them.

use std::collections::BTreeSet;

use serde::Deserialize;
use tidings_model::{
    limits,
    settings::ServiceUrl,
    subscription::{NoticeType, WebhookSubscription},
    webhook_secret::SigningSecret,
};
use toml::Spanned;

use super::{
    checks::Checks,
    former,
    keys::{ConfigTable, ConfigValue, RawList, RawText, ToConfigValue as _, text_list, unless_empty},
    problem::{ConfigProblem, did_you_mean},
};

const NAME_CHARS: usize = 64;
const NAME: &str = "write a name of a-z, 0-9, - and _, for example \"crm\"";
const URL: &str = "write for example \"https://app.example.com/tidings/events\"";
const VARIABLE: &str = "\"TIDINGS_SUBSCRIBE_SECRET\"";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSubscribe {
    name: RawText,
    url: RawText,
    events: RawList,
    tenant: RawText,
    digest_type: RawText,
    secret_env: RawText,
    was: RawList,
}

pub(super) fn check_subscriptions(
    raw: &[Spanned<RawSubscribe>],
    checks: &mut Checks<'_>,
) -> Option<Vec<WebhookSubscription>> {
    let mut names = BTreeSet::new();
    let subscriptions: Vec<_> = raw
        .iter()
        .map(|table| {
            let subscription = check_one(table, checks)?;
            if names.insert(subscription.name.clone()) {
                return Some(subscription);
            }
            let problem = "is the name of another subscription, too; write another name";
            checks.report(
                ConfigProblem::new(checks.place_of(table), "subscribe.name", problem).with_value(subscription.name),
            );
            None
        })
        .collect();
    let tables = raw
        .iter()
        .map(AsRef::as_ref)
        .filter_map(|table: &RawSubscribe| Some((table.name.as_ref()?.as_ref().as_str(), table.was.as_ref())));
    former::check_former("subscribe", tables, checks)?;
    subscriptions.into_iter().collect()
}

fn check_one(table: &Spanned<RawSubscribe>, checks: &mut Checks<'_>) -> Option<WebhookSubscription> {
    let RawSubscribe { name, url, events, tenant, digest_type, secret_env, was } = table.as_ref();
    let has_events = events.as_ref().is_some_and(|events| !events.as_ref().is_empty());
    for (key, is_there, right) in [
        ("name", name.is_some(), NAME.to_owned()),
        ("url", url.is_some(), URL.to_owned()),
        ("events", has_events, format!("write for example [\"digest.failed\"]; there are {}", notice_names())),
        ("secret_env", secret_env.is_some(), format!("write for example {VARIABLE}")),
    ] {
        if !is_there {
            checks.report_at(table, format!("subscribe.{key}"), format!("is missing; {right}"));
        }
    }
    let name = checks.text("subscribe.name", name.as_ref(), checked_name);
    let url = checks.text("subscribe.url", url.as_ref(), |text| ServiceUrl::parse_url(text, URL));
    let events = checks.each("subscribe.events", events.as_ref(), notice_type);
    let tenant = optional_id("tenant", tenant.as_ref(), checks);
    let digest_type = optional_id("digest_type", digest_type.as_ref(), checks);
    let (secret_env, secrets) =
        checks.secret_of("subscribe.secret_env", secret_env.as_ref()?, VARIABLE, parse_secrets)?;
    let events: BTreeSet<_> = events?.into_iter().collect();
    Some(WebhookSubscription {
        name: name?,
        url: url?,
        events: Some(events).filter(|events| !events.is_empty())?,
        tenant: tenant?,
        digest_type: digest_type?,
        secrets: secrets.unwrap_or_default(),
        secret_env,
        was: was.iter().flat_map(|was| was.as_ref()).map(|name| name.as_ref().clone()).collect(),
    })
}

pub(super) fn secret_problem(subscription: &WebhookSubscription) -> Option<ConfigProblem> {
    let WebhookSubscription { name, secrets, secret_env, .. } = subscription;
    let remedy =
        format!("what `echo whsec_$(openssl rand -base64 24)` prints, here and at the receiver of subscription {name}");
    secrets.is_empty().then(|| ConfigProblem::unset(secret_env, remedy))
}

pub(crate) fn show_subscription(subscription: &WebhookSubscription) -> ConfigValue {
    ConfigValue::Table(ConfigTable::of([
        ("name", subscription.name.show()),
        ("url", subscription.url.url().as_str().show()),
        ("events", Some(ConfigValue::List(text_list(subscription.events.iter().map(|event| event.name()))))),
        ("tenant", subscription.tenant.show()),
        ("digest_type", subscription.digest_type.show()),
        ("secret_env", subscription.secret_env.show()),
        ("was", unless_empty(text_list(&subscription.was))),
    ]))
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
    let unknown = || format!("is not known{}; there are {}", meant(), notice_names());
    NoticeType::named(text).ok_or_else(unknown)
}

fn notice_names() -> String {
    NoticeType::ALL.map(NoticeType::name).join(", ")
}

#[expect(clippy::option_option, reason = "no id is right, and a wrong one is not")]
fn optional_id(key: &str, value: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<Option<String>> {
    let Some(value) = value else { return Some(None) };
    let id = |text: &str| limits::check_id(key, text).map(|()| text.to_owned()).map_err(|invalid| invalid.problem);
    checks.text(&format!("subscribe.{key}"), Some(value), id).map(Some)
}

fn parse_secrets(text: &str) -> Result<Vec<SigningSecret>, String> {
    text.split_whitespace().map(SigningSecret::parse).collect()
}
