//! Relays, as `[relay.NAME]` describes them. `smtp_url` is short for the relay named `default`.
//!
//! A relay whose address comes from the environment may lack one. Only commands that send need the address.

use std::time::Duration;

use serde::Deserialize;
use tidings_gateway::webhooks::Hook;
use tidings_model::{
    Provider, RelayUrl as Address,
    relay_url::{self, TokenSource},
    settings::{Per, Rate, RelaySettings},
    words,
};
use toml::Spanned;

use super::{
    list::{SpannedList, parse_each},
    problem::{Checks, Overridable, Problem},
    secret::{EXPOSED, is_exposed},
    variable::{shown, variable_name},
    webhook::RawWebhook,
};

/// The name of the relay of `smtp_url`.
pub(super) const DEFAULT: &str = "default";
const SMTP: Overridable =
    Overridable { key: "smtp_url", variable: "TIDINGS_SMTP_URL", default: "smtp://127.0.0.1:1025" };
/// The shortest and the longest wait for the reply after the final dot. A delivery may last 45 minutes in all.
const REPLY_TIMEOUTS: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(30)];
/// Characters in the name of a relay or of a pool.
const NAME_CHARS: usize = 64;

/// The keys of `[relay.NAME]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRelay {
    url: Option<Spanned<String>>,
    url_env: Option<Spanned<String>>,
    provider: Option<Spanned<String>>,
    pub rate: Option<Spanned<String>>,
    per_connection: Option<Spanned<i64>>,
    connections: Option<Spanned<i64>>,
    pool: Option<Spanned<String>>,
    reply_timeout: Option<Spanned<String>>,
    webhook_secret_env: Option<Spanned<String>>,
    topic_arn: Option<Spanned<String>>,
    allow_sha1: Option<Spanned<bool>>,
    token_file: Option<Spanned<String>>,
    token_command: Option<SpannedList>,
    reports_for: Option<SpannedList>,
    pub was: Option<SpannedList>,
}

/// A relay whose address may still be missing.
#[derive(Clone, Debug)]
pub struct Relay {
    address: Result<Address, Problem>,
    provider: Provider,
    rate: Option<Rate>,
    per_connection: Option<u32>,
    connections: Option<usize>,
    pool: Option<String>,
    reply_timeout: Option<Duration>,
    webhook: Option<Result<Hook, Problem>>,
    /// The variable with the webhook's secrets.
    webhook_secret_env: Option<String>,
    /// Names of relays whose messages the webhook reports about, too.
    reports_for: Vec<String>,
    /// The names that it had.
    was: Vec<String>,
}

impl Relay {
    /// Describes a relay by its address alone.
    #[must_use]
    pub fn at(address: Address) -> Self {
        let provider = Provider::default();
        Self {
            address: Ok(address),
            provider,
            rate: None,
            per_connection: None,
            connections: None,
            pool: None,
            reply_timeout: None,
            webhook: None,
            webhook_secret_env: None,
            reports_for: Vec::new(),
            was: Vec::new(),
        }
    }

    /// Returns the relay with the webhook of another one.
    pub(super) fn with_webhook_of(self, other: &Self) -> Self {
        let Self { webhook, webhook_secret_env, reports_for, was, .. } = other.clone();
        Self { webhook, webhook_secret_env, reports_for, was, ..self }
    }

    /// The provider of the relay.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns the webhook, if the relay has one.
    ///
    /// # Errors
    /// The environment variable with the secret is not set.
    pub fn webhook(&self) -> Result<Option<Hook>, Problem> {
        self.webhook.clone().transpose()
    }

    /// The name of the environment variable with the secrets of the webhook, if the webhook has secrets.
    #[must_use]
    pub fn webhook_secret_env(&self) -> Option<&str> {
        self.webhook_secret_env.as_deref()
    }

    /// The other names whose messages the webhook reports about.
    #[must_use]
    pub fn reports_for(&self) -> &[String] {
        &self.reports_for
    }

    /// The other names of attempts that the webhook reports about: those that the relay had, and those of relays of its account.
    #[must_use]
    pub fn other_names(&self) -> Vec<String> {
        self.was.iter().chain(&self.reports_for).cloned().collect()
    }

    /// The names that it had.
    #[must_use]
    pub fn was(&self) -> &[String] {
        &self.was
    }

    /// Removes a webhook whose secret is not set, and returns the problem.
    pub(super) fn remove_unready_webhook(&mut self) -> Option<Problem> {
        self.webhook.take_if(|webhook| webhook.is_err()).and_then(Result::err)
    }

    /// Warns of an access token that every user of the machine can read.
    pub(super) fn token_warning(&self, name: &str) -> Option<Problem> {
        let TokenSource::File(path) = self.address.as_ref().ok()?.token()? else { return None };
        is_exposed(path).then(|| Problem {
            place: "here".to_owned(),
            key: format!("relay.{name}.token_file"),
            value: path.display().to_string(),
            problem: EXPOSED.to_owned(),
        })
    }

    /// Returns the settings for sending through the relay.
    ///
    /// # Errors
    /// The environment variable with the address is not set.
    pub fn settings(&self) -> Result<RelaySettings, Problem> {
        let settings = RelaySettings::new(self.address.clone()?);
        Ok(RelaySettings {
            provider: self.provider,
            rate: self.rate,
            per_connection: self.per_connection.unwrap_or(settings.per_connection),
            connections: self.connections.unwrap_or(settings.connections),
            pool: self.pool.clone(),
            reply_timeout: self.reply_timeout,
            ..settings
        })
    }
}

/// Checks the relay `name`. The relay `default` takes its address from `smtp_url` if its table names none.
pub(super) fn check(
    name: &str,
    raw: &Spanned<RawRelay>,
    smtp_url: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) -> Option<Relay> {
    let table = format!("relay.{name}");
    let header = Spanned::new(raw.span(), name);
    checks.value(&table, Some(&header), |name| identifier(name, "\"ses\"").map(drop));
    let raw = raw.as_ref();
    let provider = checks.value(&format!("{table}.provider"), raw.provider.as_ref(), provider);
    let rate = checks.value(&format!("{table}.rate"), raw.rate.as_ref(), rate);
    let per_connection = checks.count(&format!("{table}.per_connection"), raw.per_connection.as_ref());
    let connections = checks.count(&format!("{table}.connections"), raw.connections.as_ref());
    let connections = connections.and_then(|count| usize::try_from(count).ok());
    let provider = provider.unwrap_or_default();
    let pool = checks.value(&format!("{table}.pool"), raw.pool.as_ref(), |text| pool(text, provider));
    let reply_timeout = checks.value(&format!("{table}.reply_timeout"), raw.reply_timeout.as_ref(), reply_timeout);
    let webhook = RawWebhook {
        table: &table,
        secret_env: raw.webhook_secret_env.as_ref(),
        topic_arn: raw.topic_arn.as_ref(),
        allow_sha1: raw.allow_sha1.as_ref(),
    };
    let webhook = webhook.check(provider, checks);
    let reports_for = raw.reports_for.as_ref().and_then(|others| {
        let other = |other: &str| other_relay(other, name, webhook.is_some());
        parse_each(&format!("{table}.reports_for"), others, checks, other)
    });
    let address = address(&table, name, &header, raw, smtp_url, checks)?;
    let webhook_secret_env = raw.webhook_secret_env.as_ref().map(|variable| variable.as_ref().clone());
    Some(Relay {
        address,
        provider,
        rate,
        per_connection,
        connections,
        pool,
        reply_timeout,
        webhook,
        webhook_secret_env,
        reports_for: reports_for.unwrap_or_default(),
        was: raw.was.iter().flat_map(|was| was.as_ref()).map(|name| name.as_ref().clone()).collect(),
    })
}

/// Checks `smtp_url`, without a table of its own.
pub(super) fn default_relay(smtp_url: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<Relay> {
    checks.secret_url(SMTP, smtp_url, |url| parse(url, None)).map(Relay::at)
}

fn address(
    table: &str,
    name: &str,
    header: &Spanned<&str>,
    raw: &RawRelay,
    smtp_url: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) -> Option<Result<Address, Problem>> {
    let problem = |place, key: &str, value: &str, problem: String| Problem {
        place,
        key: format!("{table}.{key}"),
        value: value.to_owned(),
        problem,
    };
    if let Some(variable) = &raw.url_env {
        let wrong = |fault| problem(checks.place_of(variable), "url_env", &shown(variable.as_ref()), fault);
        let named = variable_name(variable.as_ref(), "\"RELAY_URL\", or give the address as url").map_err(wrong);
        checks.accept(named)?;
    }
    let token = token(table, raw, checks)?;
    let parse = |url: &str| parse(url, token.clone());
    match (&raw.url, &raw.url_env) {
        (Some(_), Some(variable)) => {
            let fault = "is a second address next to url; leave one of them out".to_owned();
            checks.report(problem(checks.place_of(variable), "url_env", &shown(variable.as_ref()), fault));
            None
        }
        (Some(url), None) => checks.secret(&format!("{table}.url"), url, parse).map(Ok),
        (None, Some(variable)) => {
            let Some(url) = checks.variable(variable.as_ref()) else {
                let fault = "is not set; set it to the relay's address, like smtp://user:password@mail.example.com:587";
                let place = checks.place_of(variable);
                return Some(Err(problem(place, "url_env", &shown(variable.as_ref()), fault.to_owned())));
            };
            checks.secret_outside("environment", variable.as_ref(), &url, parse).map(Ok)
        }
        (None, None) if name == DEFAULT => checks.secret_url(SMTP, smtp_url, parse).map(Ok),
        (None, None) => {
            let fault = "is missing; write for example \"smtp://user:password@mail.example.com:587\", or url_env with the \
                         name of an environment variable";
            checks.report(problem(checks.place_of(header), "url", "", fault.to_owned()));
            None
        }
    }
}

fn parse(url: &str, token: Option<TokenSource>) -> Result<Address, String> {
    let address = match token {
        Some(source) => Address::with_token(url, source),
        None => url.parse(),
    };
    address.map_err(|error: relay_url::Error| error.to_string())
}

/// The source of the access token, if the table has one. `None`: it is wrong.
#[expect(clippy::option_option, reason = "no token is right, and a wrong one is not")]
fn token(table: &str, raw: &RawRelay, checks: &mut Checks<'_>) -> Option<Option<TokenSource>> {
    let (file, command) = ("token_file", "token_command");
    match (&raw.token_file, &raw.token_command) {
        (None, None) => Some(None),
        (Some(path), None) => {
            let right = || "is empty; write for example \"/run/secrets/mail-token\"".to_owned();
            let source = |path: &str| (!path.is_empty()).then(|| TokenSource::File(path.into())).ok_or_else(right);
            checks.value(&format!("{table}.{file}"), Some(path), source).map(Some)
        }
        (None, Some(words)) if words.as_ref().is_empty() => {
            let (place, key) = (checks.place_of(words), format!("{table}.{command}"));
            let problem =
                "is empty; write the program and its arguments, for example [\"/usr/local/bin/mail-token\"]".to_owned();
            checks.report(Problem { place, key, value: String::new(), problem });
            None
        }
        (None, Some(words)) => {
            let words = parse_each(&format!("{table}.{command}"), words, checks, |word| Ok(word.to_owned()))?;
            Some(Some(TokenSource::Command(words)))
        }
        (Some(_), Some(words)) => {
            let problem = format!("is a second source next to {file}; leave one of them out");
            let (place, key) = (checks.place_of(words), format!("{table}.{command}"));
            checks.report(Problem { place, key, value: String::new(), problem });
            None
        }
    }
}

fn provider(text: &str) -> Result<Provider, String> {
    Provider::named(text).ok_or_else(|| {
        let names: Vec<_> = Provider::ALL.iter().map(|provider| provider.name()).collect();
        format!("is not a provider that Tidings knows; write one of {}", names.join(", "))
    })
}

/// Parses `14/s`.
fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "is not a rate; write for example \"14/s\", \"600/m\", \"10000/h\" or \"300/d\"".to_owned();
    let (mails, per) = text.split_once('/').ok_or_else(wrong)?;
    let mails = mails.parse().ok().filter(|mails| *mails > 0).ok_or_else(wrong)?;
    let per = Per::named(per).ok_or_else(wrong)?;
    Ok(Rate { mails, per })
}

fn reply_timeout(text: &str) -> Result<Duration, String> {
    let [shortest, longest] = REPLY_TIMEOUTS;
    let timeout = words::duration(text)?;
    if (shortest..=longest).contains(&timeout) {
        return Ok(timeout);
    }
    Err("is not between 5s and 30m; write for example \"10m\"".to_owned())
}

fn pool(text: &str, provider: Provider) -> Result<String, String> {
    if !provider.has_pools() {
        let known: Vec<_> = Provider::ALL.iter().filter(|p| p.has_pools()).map(|p| p.name()).collect();
        return Err(format!(
            "needs a provider with pools, and {} has none; leave the key out, or set provider to one of {}",
            provider.name(),
            known.join(", ")
        ));
    }
    identifier(text, "\"marketing\"")
}

/// Checks the name of a relay whose messages the webhook of the relay `own` reports about.
fn other_relay(text: &str, own: &str, has_webhook: bool) -> Result<String, String> {
    if !has_webhook {
        return Err(
            "needs a webhook; add webhook_secret_env, or topic_arn for Amazon SES, or leave the key out".to_owned()
        );
    }
    if text == own {
        return Err(
            "is the relay itself, whose messages its webhook reports about in any case; leave it out".to_owned()
        );
    }
    identifier(text, "\"ses\"")
}

/// Accepts text that is safe in a header, in a log and in the name of a table.
fn identifier(text: &str, example: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=NAME_CHARS).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("is not a name of up to {NAME_CHARS} letters, digits, - and _; write for example {example}"))
}
