//! `tidings webhooks`: tests the relays' webhooks.

use std::env;

use jiff::Timestamp;
use serde::Serialize;
use tidings_gateway::{
    fetch::{FetchError, HttpFetcher},
    webhooks::{
        RelayWebhook, post_sample,
        samples::{Expected, Sample, samples},
        ses::CertificateCache,
    },
};
use tidings_model::{
    MessageKey, Provider,
    records::{MessageRecord, SuppressionReason, WebhookLetterId},
};
use tidings_store::Store;
use url::Url;
use uuid::Uuid;

use crate::{
    Config,
    config::{ConfigError, RelayConfig},
    error::UsageError,
    storage,
};

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum WebhooksCommand {
    /// Send a signed sample of each kind to the real route, and show the result
    #[command(after_help = "Examples:\n  \
        tidings webhooks test mailgun\n  \
        tidings webhooks test own --url http://127.0.0.1:8080 --json\n  \
        tidings send --tenant acme --to me@acme.example --key test-webhooks --template welcome\n  \
        tidings webhooks test mailgun --tenant acme --message test-webhooks\n\n\
        The samples are about a message that does not exist, so they change no recipient. With --message, they are about a test \
        message: a single message whose key begins with `test`. This suppresses its address; the output shows how to lift that.\n\n\
        Amazon SES and SendGrid sign with keys of their own. For them, the command checks that the route rejects an \
        unsigned sample, and for SES that the server with the certificates of SNS can be reached from here. Test the rest \
        from the provider's own pages.\n\n\
        Exit codes: 0 each sample was answered as expected, 1 one was not, 2 wrong usage.")]
    Test(WebhookTestOptions),
}

/// Returns `false` if a sample had an unexpected result.
pub(crate) async fn run(command: WebhooksCommand, config: &Config) -> anyhow::Result<bool> {
    match command {
        WebhooksCommand::Test(options) => test(options, config).await,
    }
}

/// Prefix for the key of a test message.
const TEST: &str = "test";

/// The relay, the route and the message.
#[derive(Debug, clap::Args)]
pub struct WebhookTestOptions {
    /// The relay: [relay.NAME] of tidings.toml
    #[arg(value_name = "RELAY")]
    relay: String,
    /// The address of the gateway [default: that of the configuration]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Report about this single message, whose key begins with `test`, instead of one that does not exist
    #[arg(long, value_name = "KEY", requires = "tenant")]
    message: Option<String>,
    /// The tenant of the message
    #[arg(long, value_name = "TENANT", requires = "message")]
    tenant: Option<String>,
    /// Print JSON, one line for each sample
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct WebhookTestLine {
    sample: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    becomes: String,
}

async fn test(options: WebhookTestOptions, config: &Config) -> anyhow::Result<bool> {
    let (relay, hook) = webhook(config, &options.relay)?;
    let url = webhook_url(config, &options)?;
    let store = storage::open(&config.database_url).await?;
    let message = match (options.tenant, options.message) {
        (Some(tenant), Some(key)) => Some(test_message(&*store, tenant, key).await?),
        _ => None,
    };
    let id = message.as_ref().map_or_else(Uuid::new_v4, |message| message.id);
    let secrets = relay.webhook_secret_env().and_then(|variable| env::var(variable).ok());
    let target =
        WebhookTestTarget { store: &*store, relay: &options.relay, url, message: id, exists: message.is_some() };
    let mut all_ok = true;
    let mut say = |line: WebhookTestLine| {
        all_ok &= line.ok;
        anstream::println!("{}", if options.json { serde_json::json!(line).to_string() } else { in_words(&line) });
    };
    for sample in samples(relay.provider(), secrets.as_deref(), id, Timestamp::now()) {
        say(target.test(&sample).await?);
    }
    for line in servers(&hook).await {
        say(line);
    }
    if !options.json {
        anstream::println!("{}", summarize_effects(&*store, relay.provider(), message).await?);
    }
    Ok(all_ok)
}

fn webhook<'a>(config: &'a Config, name: &str) -> anyhow::Result<(&'a RelayConfig, RelayWebhook)> {
    let relay = config.relays.get(name).ok_or_else(|| {
        let names: Vec<_> = config.relays.keys().map(String::as_str).collect();
        UsageError(format!("there is no relay {name:?}; there are: {}", names.join(", ")))
    })?;
    let hook = relay.webhook().map_err(|unset| ConfigError::Wrong(vec![unset]))?.ok_or_else(|| {
        let key = if relay.provider() == Provider::Ses { "topic_arn" } else { "webhook_secret_env" };
        UsageError(format!("[relay.{name}] has no webhook; set {key}, and see docs/delivery.md"))
    })?;
    Ok((relay, hook))
}

fn webhook_url(config: &Config, options: &WebhookTestOptions) -> Result<Url, UsageError> {
    let base = match (&options.url, &config.gateway.pages.public_url) {
        (Some(url), _) => url.to_string(),
        (None, Some(url)) => url.clone(),
        (None, None) => return Err(UsageError("--url is required, because gateway.public_url is not set".to_owned())),
    };
    let url: Option<Url> = format!("{}/webhooks/{}", base.trim_end_matches('/'), options.relay).parse().ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| UsageError(format!("--url {base:?} is not the address of a gateway, like http://127.0.0.1:8080")))
}

/// Other messages are not allowed, because the reports will change the message and suppress its address.
async fn test_message(store: &dyn Store, tenant: String, key: String) -> anyhow::Result<MessageRecord> {
    if !key.starts_with(TEST) {
        let right = "its key must begin with `test`, because reports suppress its address";
        return Err(UsageError(format!("--message {key:?} is no test message: {right}")).into());
    }
    let key = MessageKey::new(tenant, key).map_err(|error| UsageError(format!("--message: {error}")))?;
    let found = store.message(key.message_id()).await?;
    Ok(found.ok_or_else(|| UsageError(format!("--message: there is no message {key}; send one with tidings send")))?)
}

struct WebhookTestTarget<'a> {
    store: &'a dyn Store,
    relay: &'a str,
    url: Url,
    message: Uuid,
    exists: bool,
}

impl WebhookTestTarget<'_> {
    async fn test(&self, sample: &Sample) -> anyhow::Result<WebhookTestLine> {
        let before = self.store.delivery_events(self.message).await?.len();
        let answered = post_sample(&self.url, sample).await;
        let line = |ok: bool, status: Option<u16>, becomes: String| WebhookTestLine {
            sample: sample.name.to_owned(),
            ok,
            status,
            becomes,
        };
        let status = match answered {
            Ok(status) => status.as_u16(),
            Err(error) => return Ok(line(false, None, format!("{}: {error}", self.url))),
        };
        let expected = if sample.expected == Expected::Refused { 401 } else { 200 };
        if status != expected {
            return Ok(line(false, Some(status), format!("expected {expected}; {}", remedy(status))));
        }
        let (ok, becomes) = match sample.expected {
            Expected::Refused => (true, "rejected, as expected".to_owned()),
            Expected::DeadLetter => self.find_dead_letter(sample).await?,
            Expected::Event(_) if self.exists => {
                let recorded = self.store.delivery_events(self.message).await?;
                // It is not recorded again, e.g. after a test in the same second.
                let report = recorded
                    .iter()
                    .map(|record| &record.report)
                    .find(|report| Expected::Event(report.kind) == sample.expected);
                let again = if recorded.len() == before { " before" } else { "" };
                match report {
                    Some(report) => (true, format!("recorded{again} as {}", report.kind)),
                    None => (false, ELSEWHERE.to_owned()),
                }
            }
            Expected::Event(kind) => (true, format!("{kind} of an unknown message: counted, and nothing changed")),
        };
        Ok(line(ok, Some(status), becomes))
    }

    async fn find_dead_letter(&self, sample: &Sample) -> anyhow::Result<(bool, String)> {
        let id = WebhookLetterId::new(self.relay, &sample.sha256());
        let letter = self.store.webhook_letter(&id).await?;
        Ok(letter.map_or((false, ELSEWHERE.to_owned()), |_| (true, format!("dead letter {id}"))))
    }
}

const ELSEWHERE: &str =
    "not recorded: another relay had the message, or the gateway has another database than this tidings.toml";

const fn remedy(status: u16) -> &'static str {
    match status {
        401 => "the gateway serves no webhook of this relay, or has another secret",
        404 => "no Tidings gateway responds there",
        429 | 503 => "the gateway or its database is busy: try again",
        _ => "a proxy may answer instead of the gateway",
    }
}

async fn servers(hook: &RelayWebhook) -> Vec<WebhookTestLine> {
    let (mut lines, certificates) = (Vec::new(), CertificateCache::new(HttpFetcher::new()));
    for topic in hook.topics() {
        let server = topic.server();
        // Any HTTP response is fine.
        let (ok, becomes) = match certificates.fetch_url(&server).await {
            Ok(_) | Err(FetchError::Status(_) | FetchError::Body(_)) => (true, "answers from here".to_owned()),
            Err(error) => (false, format!("{error}; the gateway needs it for the certificates of SNS")),
        };
        lines.push(WebhookTestLine { sample: server.host, ok, status: None, becomes });
    }
    lines
}

/// Explains gaps in the test, or lists changes made by the samples.
async fn summarize_effects(
    store: &dyn Store,
    provider: Provider,
    message: Option<MessageRecord>,
) -> anyhow::Result<String> {
    if matches!(provider, Provider::Ses | Provider::SendGrid) {
        return Ok(format!(
            "Not tested: a signed event, because {0} signs with a key of its own. A refusal looks the same for a relay that the \
             gateway does not serve. Send a test from the pages of {0}, and look at tidings_webhook_events_total.",
            provider.name()
        ));
    }
    let letters = "Left: two dead letters, which retention deletes.";
    let Some(before) = message else { return Ok(format!("No recipient was changed. {letters}")) };
    let after = store.message(before.id).await?.map_or(before.state, |message| message.state);
    let tenant = before.origin.tenant();
    let reasons = store.suppression_reasons(tenant, &before.envelope_to).await?;
    let reasons: Vec<_> = reasons.into_iter().map(SuppressionReason::name).collect();
    Ok(format!(
        "Changed: message {} was {} and is {}. Its address is suppressed: {}. Lift that: tidings suppressions lift {tenant} ADDRESS \
         --why 'a test'. {letters}",
        before.id,
        before.state.name(),
        after.name(),
        if reasons.is_empty() { "no".to_owned() } else { reasons.join(", ") }
    ))
}

fn in_words(WebhookTestLine { sample, ok, status, becomes }: &WebhookTestLine) -> String {
    let mark = if *ok { "ok  " } else { "FAIL" };
    let status = status.map_or_else(|| "   ".to_owned(), |status| status.to_string());
    format!("{mark}  {sample:<18} {status}  {becomes}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        let streams = "[stream.bulk]\nrelays = [\"m\"]\n[stream.transactional]\nrelays = [\"m\"]\n";
        let text = format!("[relay.m]\nurl = \"smtp://127.0.0.1\"\n{text}\n{streams}");
        Config::parse_text(Path::new("tidings.toml"), &text, &|_| None).unwrap()
    }

    #[test]
    fn a_relay_without_a_webhook_is_wrong_usage_with_the_remedy() {
        let mailgun = config("provider = \"mailgun\"");
        let said = webhook(&mailgun, "m").unwrap_err().to_string();
        assert!(said.contains("[relay.m] has no webhook; set webhook_secret_env"), "{said}");
        assert!(webhook(&mailgun, "x").unwrap_err().to_string().contains("there is no relay \"x\"; there are: "));
        let unset = config("provider = \"mailgun\"\nwebhook_secret_env = \"M_WEBHOOK\"");
        assert!(webhook(&unset, "m").unwrap_err().to_string().contains("is not set"));
    }

    #[test]
    fn the_route_is_that_of_the_gateway_unless_a_url_is_given() {
        let options = |url: Option<&str>| WebhookTestOptions {
            relay: "m".to_owned(),
            url: url.map(|url| url.parse().unwrap()),
            message: None,
            tenant: None,
            json: false,
        };
        let mut with_gateway = config("");
        with_gateway.gateway.pages.public_url = Some("https://mail.acme.example/t".to_owned());
        let to = |config: &Config, url: Option<&str>| webhook_url(config, &options(url)).map(|url| url.to_string());
        assert_eq!(to(&with_gateway, None).unwrap(), "https://mail.acme.example/t/webhooks/m");
        assert_eq!(to(&with_gateway, Some("http://127.0.0.1:8080/")).unwrap(), "http://127.0.0.1:8080/webhooks/m");
        assert!(to(&config(""), None).unwrap_err().0.contains("--url is required"));
        assert!(
            to(&config(""), Some("mailto:ann@example.com")).unwrap_err().0.contains("is not the address of a gateway")
        );
    }
}
