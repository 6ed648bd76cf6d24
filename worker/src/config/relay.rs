//! Relays: the tables `[relay.NAME]`. `smtp_url` is short for the relay `default`.
//!
//! The environment may lack a relay's address. Only commands that send need it.

use std::time::Duration;

use tidings_gateway::webhooks::{RelayWebhook, webhook_for};
use tidings_model::{
    Provider, RelayUrl as Address,
    relay_url::{self, TokenSource},
    settings::{MessageRate, RateUnit, RelaySettings},
    words,
};
use toml::Spanned;

use super::{
    checks::{Checks, OverridableKey, masked_name, whole},
    keys::{
        ConfigTable, ConfigValue, RawFlag, RawList, RawText, ToConfigValue as _, ToTable as _, table, text_list,
        unless_empty,
    },
    problem::ConfigProblem,
    secret::{EXPOSED, is_exposed},
};

pub(super) const DEFAULT: &str = "default";
const SMTP: OverridableKey =
    OverridableKey { key: "smtp_url", variable: "TIDINGS_SMTP_URL", default: "smtp://127.0.0.1:1025" };
/// Limits for the wait after the final dot. A whole delivery may take 45 minutes.
const REPLY_TIMEOUTS: [Duration; 2] = [Duration::from_secs(5), Duration::from_mins(30)];
const NAME_CHARS: usize = 64;

table! {
    /// The keys of `[relay.NAME]`.
    pub(super) struct RawRelay for relay: RelayConfig, read() {
        url: raw(RawText);
        url_env: raw(RawText);
        provider: text(parse_provider);
        rate: text(parse_rate);
        per_connection: number(whole(u32::MAX));
        connections: number(|text| whole(u32::MAX)(text).map(|count| count as usize));
        pool: text(|text| parse_pool(text, relay.provider));
        reply_timeout: text(reply_timeout);
        webhook_secret_env: raw(RawText);
        topic_arn: raw(RawText);
        allow_sha1: raw(RawFlag);
        token_file: raw(RawText);
        token_command: raw(RawList);
        reports_for: apart(RawList), shown unless_empty(text_list(&relay.reports_for));
        was: apart(RawList), shown unless_empty(text_list(&relay.was));
    }
}

#[derive(Clone, Debug)]
pub struct RelayConfig {
    address: Result<Address, ConfigProblem>,
    provider: Provider,
    rate: Option<MessageRate>,
    per_connection: u32,
    connections: usize,
    pool: Option<String>,
    reply_timeout: Option<Duration>,
    webhook: Option<Result<RelayWebhook, ConfigProblem>>,
    webhook_secret_env: Option<String>,
    /// Relays that share this webhook, e.g. because they use the same provider account.
    reports_for: Vec<String>,
    was: Vec<String>,
}

impl RelayConfig {
    #[must_use]
    pub fn with_address(address: Address) -> Self {
        Self::new(Ok(address))
    }

    fn new(address: Result<Address, ConfigProblem>) -> Self {
        Self {
            address,
            provider: Provider::default(),
            rate: None,
            per_connection: RelaySettings::PER_CONNECTION,
            connections: RelaySettings::CONNECTIONS,
            pool: None,
            reply_timeout: None,
            webhook: None,
            webhook_secret_env: None,
            reports_for: Vec::new(),
            was: Vec::new(),
        }
    }

    pub(super) fn with_webhook_of(self, other: &Self) -> Self {
        let Self { webhook, webhook_secret_env, reports_for, was, .. } = other.clone();
        Self { webhook, webhook_secret_env, reports_for, was, ..self }
    }

    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// # Errors
    /// The environment variable with the secret is not set.
    pub fn webhook(&self) -> Result<Option<RelayWebhook>, ConfigProblem> {
        self.webhook.clone().transpose()
    }

    #[must_use]
    pub fn webhook_secret_env(&self) -> Option<&str> {
        self.webhook_secret_env.as_deref()
    }

    /// The webhook also reports on attempts recorded under these names: former names, and relays in
    /// `reports_for`.
    #[must_use]
    pub fn other_names(&self) -> Vec<String> {
        self.was.iter().chain(&self.reports_for).cloned().collect()
    }

    #[must_use]
    pub fn former_names(&self) -> &[String] {
        &self.was
    }

    pub(super) fn remove_unready_webhook(&mut self) -> Option<ConfigProblem> {
        self.webhook.take_if(|webhook| webhook.is_err()).and_then(Result::err)
    }

    pub(super) fn token_warning(&self, name: &str) -> Option<ConfigProblem> {
        let TokenSource::File(path) = self.address.as_ref().ok()?.token_source()? else { return None };
        is_exposed(path).then(|| {
            ConfigProblem::new("here", format!("relay.{name}.token_file"), EXPOSED)
                .with_value(path.display().to_string())
        })
    }

    /// Omits the password, and the arguments of `token_command` because they may be secret. Returns `None` if
    /// the environment lacks the address.
    #[must_use]
    pub fn show(&self) -> Option<ConfigTable> {
        let address = self.address.as_ref().ok()?;
        let token = address.token_source().map(|source| match source {
            TokenSource::File(path) => format!("file {}", path.display()),
            TokenSource::Command(words) => format!("command {}", words.first().map_or("", String::as_str)),
        });
        let mut shown = self.to_table();
        shown.insert_first("token", token.show());
        shown.insert_first("url", Some(ConfigValue::Text(address.to_string())));
        Some(shown)
    }

    /// # Errors
    /// The environment variable with the address is not set.
    pub fn settings(&self) -> Result<RelaySettings, ConfigProblem> {
        Ok(RelaySettings {
            relay: self.address.clone()?,
            provider: self.provider,
            rate: self.rate,
            per_connection: self.per_connection,
            connections: self.connections,
            pool: self.pool.clone(),
            reply_timeout: self.reply_timeout,
        })
    }
}

pub(super) fn check_relay(
    name: &str,
    raw: &Spanned<RawRelay>,
    smtp_url: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) -> Option<RelayConfig> {
    let table = format!("relay.{name}");
    let header = Spanned::new(raw.span(), name);
    checks.text(&table, Some(&header), |name| parse_identifier(name, "\"ses\"").map(drop));
    let raw = raw.as_ref();
    let missing = ConfigProblem::new(
        checks.place_of(&header),
        format!("{table}.url"),
        "is missing; write for example \"smtp://user:password@mail.example.com:587\", or url_env with the name of an environment \
         variable",
    );
    let mut relay = RelayConfig::new(Err(missing));
    raw.read(&table, &mut relay, checks);
    relay.webhook = raw.check_webhook(&table, relay.provider, checks);
    let other = |other: &str| other_relay(other, name, relay.webhook.is_some());
    let reports_for = checks.each(&format!("{table}.reports_for"), raw.reports_for.as_ref(), other);
    relay.reports_for = reports_for.unwrap_or_default();
    relay.address = raw.address(&table, name, relay.address, smtp_url, checks)?;
    relay.webhook_secret_env = raw.webhook_secret_env.as_ref().map(|variable| variable.as_ref().clone());
    relay.was = raw.was.iter().flat_map(|was| was.as_ref()).map(|name| name.as_ref().clone()).collect();
    Some(relay)
}

pub(super) fn default_relay(smtp_url: Option<&Spanned<String>>, checks: &mut Checks<'_>) -> Option<RelayConfig> {
    checks.secret_url(SMTP, smtp_url, |url| parse_address(url, None)).map(RelayConfig::with_address)
}

impl RawRelay {
    fn address(
        &self,
        table: &str,
        name: &str,
        missing: Result<Address, ConfigProblem>,
        smtp_url: Option<&Spanned<String>>,
        checks: &mut Checks<'_>,
    ) -> Option<Result<Address, ConfigProblem>> {
        let key = format!("{table}.url_env");
        let right = "\"RELAY_URL\", or give the address as url";
        let variable = match &self.url_env {
            Some(variable) => Some((variable, checks.named_variable(&key, variable, right)?)),
            None => None,
        };
        let token = self.token(table, checks)?;
        let parse = |url: &str| parse_address(url, token.clone());
        let problem = |variable: &Spanned<String>, checks: &Checks<'_>, fault: &str| {
            ConfigProblem::new(checks.place_of(variable), key.as_str(), fault)
                .with_value(masked_name(variable.as_ref()))
        };
        match (&self.url, variable) {
            (Some(_), Some((variable, _))) => {
                checks.report(problem(variable, checks, "is a second address next to url; leave one of them out"));
                None
            }
            (Some(url), None) => checks.secret(&format!("{table}.url"), Some(url), parse).map(Ok),
            (None, Some((_, (variable, Some(url))))) => {
                checks.secret_outside("environment", &variable, &url, parse).map(Ok)
            }
            (None, Some((variable, (_, None)))) => {
                let fault = "is not set; set it to the relay's address, like smtp://user:password@mail.example.com:587";
                Some(Err(problem(variable, checks, fault)))
            }
            (None, None) if name == DEFAULT => checks.secret_url(SMTP, smtp_url, parse).map(Ok),
            (None, None) => checks.accept(missing).map(Ok),
        }
    }

    /// Returns `None` if the token is wrong, and `Some(None)` if there is none.
    #[expect(clippy::option_option, reason = "no token is right, and a wrong one is not")]
    fn token(&self, table: &str, checks: &mut Checks<'_>) -> Option<Option<TokenSource>> {
        let command = format!("{table}.token_command");
        match (&self.token_file, &self.token_command) {
            (None, None) => Some(None),
            (Some(path), None) => {
                let right = || "is empty; write for example \"/run/secrets/mail-token\"".to_owned();
                let source = |path: &str| (!path.is_empty()).then(|| TokenSource::File(path.into())).ok_or_else(right);
                checks.text(&format!("{table}.token_file"), Some(path), source).map(Some)
            }
            (None, Some(words)) if words.as_ref().is_empty() => {
                let right = "write the program and its arguments, for example [\"/usr/local/bin/mail-token\"]";
                checks.report_at(words, command, format!("is empty; {right}"));
                None
            }
            (None, Some(words)) => {
                let words = checks.each(&command, Some(words), |word| Ok(word.to_owned()))?;
                Some(Some(TokenSource::Command(words)))
            }
            (Some(_), Some(words)) => {
                checks.report_at(words, command, "is a second source next to token_file; leave one of them out");
                None
            }
        }
    }

    /// An unset secret is only an error for the gateway.
    fn check_webhook(
        &self,
        table: &str,
        provider: Provider,
        checks: &mut Checks<'_>,
    ) -> Option<Result<RelayWebhook, ConfigProblem>> {
        if provider == Provider::Ses {
            self.topics(table, checks).map(Ok)
        } else {
            self.secret_hook(table, provider, checks)
        }
    }

    /// SNS signs with certificates, so the operator configures a topic and no secret.
    fn topics(&self, table: &str, checks: &mut Checks<'_>) -> Option<RelayWebhook> {
        if let Some(variable) = &self.webhook_secret_env {
            let fault = "is not needed for Amazon SES, which signs with a certificate; write topic_arn instead";
            let problem = ConfigProblem::new(checks.place_of(variable), format!("{table}.webhook_secret_env"), fault);
            checks.report(problem.with_value(masked_name(variable.as_ref())));
        }
        let mut hook = RelayWebhook::new(Provider::Ses);
        if let (Some(allow), None) = (&self.allow_sha1, &self.topic_arn) {
            let problem =
                ConfigProblem::new(checks.place_of(allow), format!("{table}.allow_sha1"), "needs topic_arn, too");
            checks.report(problem.with_value(allow.as_ref().to_string()));
        }
        checks.text(&format!("{table}.topic_arn"), self.topic_arn.as_ref(), |arns| add_all(&mut hook, arns))?;
        if self.allow_sha1.as_ref().is_some_and(|allow| *allow.as_ref()) {
            hook.allow_sha1();
        }
        Some(hook)
    }

    fn secret_hook(
        &self,
        table: &str,
        provider: Provider,
        checks: &mut Checks<'_>,
    ) -> Option<Result<RelayWebhook, ConfigProblem>> {
        let needs_ses = "needs provider = \"ses\"; leave the key out";
        if let Some(arn) = &self.topic_arn {
            let problem = ConfigProblem::new(checks.place_of(arn), format!("{table}.topic_arn"), needs_ses);
            checks.report(problem.with_value(arn.as_ref()));
        }
        if let Some(allow) = &self.allow_sha1 {
            let problem = ConfigProblem::new(checks.place_of(allow), format!("{table}.allow_sha1"), needs_ses);
            checks.report(problem.with_value(allow.as_ref().to_string()));
        }
        let variable = self.webhook_secret_env.as_ref()?;
        let key = format!("{table}.webhook_secret_env");
        let mut hook = RelayWebhook::new(provider);
        let right = format!("{:?}", example(table));
        let (name, added) = checks.secret_of(&key, variable, &right, |secrets| add_all(&mut hook, secrets))?;
        if added.is_none() {
            let fault = format!("is not set; set it to {}", webhook_for(provider).secret_hint());
            return Some(Err(ConfigProblem::new(checks.place_of(variable), key, fault).with_value(masked_name(&name))));
        }
        Some(Ok(hook))
    }
}

fn parse_address(url: &str, token: Option<TokenSource>) -> Result<Address, String> {
    let address = match token {
        Some(source) => Address::with_token(url, source),
        None => url.parse(),
    };
    address.map_err(|error: relay_url::RelayUrlError| error.to_string())
}

fn parse_provider(text: &str) -> Result<Provider, String> {
    Provider::named(text).ok_or_else(|| {
        let names: Vec<_> = Provider::ALL.iter().map(|provider| provider.name()).collect();
        format!("is not a supported provider; write one of {}", names.join(", "))
    })
}

fn parse_rate(text: &str) -> Result<MessageRate, String> {
    let wrong = || "is not a rate; write for example \"14/s\", \"600/m\", \"10000/h\" or \"300/d\"".to_owned();
    let (mails, per) = text.split_once('/').ok_or_else(wrong)?;
    let mails = mails.parse().ok().filter(|mails| *mails > 0).ok_or_else(wrong)?;
    let per = RateUnit::named(per).ok_or_else(wrong)?;
    Ok(MessageRate { mails, per })
}

fn reply_timeout(text: &str) -> Result<Duration, String> {
    let [shortest, longest] = REPLY_TIMEOUTS;
    let timeout = words::parse_duration(text)?;
    if (shortest..=longest).contains(&timeout) {
        return Ok(timeout);
    }
    Err("is not between 5s and 30m; write for example \"10m\"".to_owned())
}

fn parse_pool(text: &str, provider: Provider) -> Result<String, String> {
    if !provider.has_pools() {
        let known: Vec<_> = Provider::ALL.iter().filter(|p| p.has_pools()).map(|p| p.name()).collect();
        return Err(format!(
            "needs a provider with pools, and {} has none; leave the key out, or set provider to one of {}",
            provider.name(),
            known.join(", ")
        ));
    }
    parse_identifier(text, "\"marketing\"")
}

fn other_relay(text: &str, own: &str, has_webhook: bool) -> Result<String, String> {
    if !has_webhook {
        return Err(
            "needs a webhook; add webhook_secret_env, or topic_arn for Amazon SES, or leave the key out".to_owned()
        );
    }
    if text == own {
        return Err("is the relay itself, whose messages its webhook always reports about; leave it out".to_owned());
    }
    parse_identifier(text, "\"ses\"")
}

fn parse_identifier(text: &str, example: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=NAME_CHARS).contains(&text.len()) && text.bytes().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("is not a name of up to {NAME_CHARS} letters, digits, - and _; write for example {example}"))
}

fn add_all(hook: &mut RelayWebhook, texts: &str) -> Result<(), String> {
    let mut texts = texts.split_whitespace().peekable();
    texts.peek().ok_or("is empty")?;
    texts.try_for_each(|text| hook.add_secret(text))
}

fn example(table: &str) -> String {
    let name = table.rsplit('.').next().unwrap_or_default().replace('-', "_");
    format!("{}_WEBHOOK", name.to_uppercase())
}
