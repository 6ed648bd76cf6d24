//! `tidings config`: checks the configuration and prints the effective settings.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use anyhow::Context as _;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use tidings_mail::{
    dkim::Dkim,
    render::{self, Renderer},
};
use tidings_model::{
    ParseError,
    settings::{CategorySettings, Counted, DigestSettings, Sender},
    words,
};

use crate::{
    Config,
    config::{self, DkimConfig, Problem},
    error::Usage,
};

mod directory;
mod gateway;
mod next_slots;
mod retention;
mod seen;
mod streams;
mod subscriptions;
mod webhooks;

use next_slots::NextSlots;

/// The commands about the configuration.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Checks tidings.toml, the environment and the templates, and prints the effective settings
    #[command(after_help = "Examples:\n  \
        tidings config check --config /etc/tidings/tidings.toml\n  \
        tidings config check --cadence 'weekdays 08:00' --zone Europe/Berlin\n\n\
        Passwords and keys are shown as ***. The command connects to nothing but the database of [directory].")]
    Check {
        /// Check these words instead, and show the next three slots
        #[arg(long, value_name = "WORDS")]
        cadence: Option<String>,
        /// The IANA time zone of the slots
        #[arg(long, requires = "cadence", default_value = "UTC")]
        zone: String,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command. Only the check of the configuration itself loads the configuration.
///
/// # Errors
/// [`config::Error`] when the configuration is wrong, a digest type's template does not exist, or the DKIM key does not
/// sign; [`Usage`] when the words are not a cadence, or the zone does not exist.
pub(crate) async fn run(
    Command::Check { cadence, zone, json }: &Command,
    config: impl FnOnce() -> Result<Config, config::Error>,
) -> anyhow::Result<bool> {
    match cadence {
        Some(words) => check_cadence(words, zone, *json)?,
        None => check(&config()?.ready_to_send()?, *json).await?,
    }
    Ok(true)
}

fn check_cadence(words: &str, zone: &str, json: bool) -> anyhow::Result<()> {
    let cadence = words.parse().map_err(|error: ParseError| Usage(error.to_string()))?;
    tidings_model::zone(zone).map_err(|problem| Usage(format!("--zone {zone:?}: {problem}")))?;
    let slots = NextSlots::new(&cadence, &TimeZone::get(zone)?, Timestamp::now());
    let shown = if json { serde_json::to_string_pretty(&slots)? } else { slots.to_string() };
    anstream::println!("{shown}");
    Ok(())
}

async fn check(config: &Config, json: bool) -> anyhow::Result<()> {
    let names = Renderer::new(config.templates.as_deref()).context("the templates cannot be read")?.names();
    let mut problems = missing_templates(config, &names);
    let dkim = config.dkim.as_ref().and_then(|signing| match signing.signer() {
        Ok(dkim) => Some((signing, dkim)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    });
    let (streams, unsigned) = streams::streams(config);
    problems.extend(unsigned);
    problems.extend(config.key_problems());
    problems.extend(config.gateway_problem());
    problems.extend(config.seen_problems());
    problems.extend(config.subscription_problems());
    let unchecked = directory::check(config, &mut problems).await;
    if !problems.is_empty() {
        return Err(config::Error::Wrong(problems).into());
    }
    let shown = ConfigView::new(config, streams, dkim.as_ref().map(|(signing, dkim)| DkimView::new(signing, dkim)));
    let shown = if json { serde_json::to_string_pretty(&shown)? } else { toml::to_string(&shown)? };
    anstream::println!("{}", shown.trim_end());
    if config.digests.is_empty() {
        anstream::eprintln!("There is no digest type: add [digest.activity] with cadence = \"daily 08:00\".");
    }
    for warning in config.warnings().into_iter().chain(unchecked) {
        anstream::eprintln!("warning: {warning}");
    }
    Ok(())
}

fn missing_templates(config: &Config, names: &[String]) -> Vec<Problem> {
    let everybodys = config.digests.iter().map(|(name, digest)| (format!("digest.{name}.template"), digest));
    let tenants = config.tenants.iter().flat_map(|(tenant, digests)| {
        digests.iter().map(move |(name, digest)| (format!("tenant.{tenant}.digest.{name}.template"), digest))
    });
    let missing = everybodys.chain(tenants).filter(|(_, digest)| !names.contains(&digest.template));
    missing
        .map(|(key, digest)| Problem {
            place: "templates".to_owned(),
            key,
            value: digest.template.clone(),
            problem: format!(
                "there is no such template; there are: {}. Until then {:?} is used",
                names.join(", "),
                render::DEFAULT
            ),
        })
        .collect()
}

/// The configuration as `tidings.toml` would say it, without passwords and keys.
#[derive(Serialize)]
struct ConfigView<'a> {
    database_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    templates: Option<&'a Path>,
    task_queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics_listen: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_keys_file: Option<&'a Path>,
    mail: MailView<'a>,
    relay: BTreeMap<&'a str, streams::RelayView>,
    stream: streams::StreamsView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<gateway::GatewayView<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    webhook: BTreeMap<&'a str, webhooks::WebhookView>,
    recipients: RecipientsView,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<directory::DirectoryView<'a>>,
    retention: retention::RetentionView<'a>,
    digest: DigestsView<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tenant: BTreeMap<&'a str, TenantView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscribe: Vec<subscriptions::SubscriptionView<'a>>,
    temporal: TemporalView<'a>,
}

type DigestsView<'a> = BTreeMap<&'a str, DigestView<'a>>;

#[derive(Serialize)]
struct RecipientsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capped: Option<&'static str>,
    soft_bounces: u32,
}

/// The looks of a tenant's pages, and all that is in force for its digest types, taken over or not.
#[derive(Serialize)]
struct TenantView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logo_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    colour: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locale: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    digest: DigestsView<'a>,
}

#[derive(Serialize)]
struct MailView<'a> {
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    domain: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dkim: Option<DkimView<'a>>,
}

#[derive(Serialize)]
struct DkimView<'a> {
    selector: &'a str,
    domain: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<&'a Path>,
    algorithm: &'static str,
    dns: Record,
}

/// The DNS record with which receivers verify the signature.
#[derive(Serialize)]
struct Record {
    name: String,
    r#type: &'static str,
    value: String,
}

#[derive(Serialize)]
struct DigestView<'a> {
    cadence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_now: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    linger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    zone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quiet: Vec<String>,
    template: &'a str,
    max_items: u32,
    max_lines: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_events: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    track: Vec<&'static str>,
    #[serde(flatten)]
    seen: Option<seen::SeenView<'a>>,
    choices: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    delay: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    categories: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    category: BTreeMap<&'a str, CategoryView<'a>>,
}

/// A category with the heading of its section.
#[derive(Serialize)]
struct CategoryView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    priority: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<String>,
}

/// Not of `tidings.toml`, but of Temporal's environment variables and file.
#[derive(Serialize)]
struct TemporalView<'a> {
    address: String,
    namespace: &'a str,
    tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_key: Option<&'static str>,
}

impl<'a> ConfigView<'a> {
    fn new(config: &'a Config, stream: streams::StreamsView<'a>, dkim: Option<DkimView<'a>>) -> Self {
        Self {
            database_url: config.database_url.to_string(),
            templates: config.templates.as_deref(),
            task_queue: &config.task_queue,
            metrics_listen: config.metrics_listen,
            link_keys_file: config.link_keys.file(),
            mail: MailView::new(&config.sender, dkim),
            relay: streams::relays(config),
            stream,
            gateway: gateway::GatewayView::new(&config.gateway),
            webhook: webhooks::webhooks(config),
            recipients: RecipientsView {
                cap: config.cap.map(|cap| cap.to_string()),
                capped: config.cap.map(|_| config.capped.name()),
                soft_bounces: config.soft_bounces,
            },
            directory: config.directory.as_ref().map(directory::DirectoryView::new),
            retention: retention::RetentionView::new(&config.retention),
            digest: digest_views(&config.digests),
            tenant: tenant_views(config),
            subscribe: config.subscriptions.iter().map(subscriptions::SubscriptionView::new).collect(),
            temporal: TemporalView {
                address: config.temporal.address(),
                namespace: config.temporal.namespace(),
                tls: config.temporal.connection.tls_options.is_some(),
                api_key: config.temporal.connection.api_key.as_ref().map(|_| "***"),
            },
        }
    }
}

fn tenant_views(config: &Config) -> BTreeMap<&str, TenantView<'_>> {
    let names = config.tenants.keys().chain(config.brands.keys());
    names
        .map(|name| {
            let brand = config.brands.get(name);
            let view = TenantView {
                name: brand.and_then(|brand| brand.name.as_deref()),
                logo_url: brand.and_then(|brand| brand.logo_url.as_deref()),
                colour: brand.and_then(|brand| brand.colour).map(|colour| colour.to_string()),
                locale: brand.and_then(|brand| brand.locale.as_deref()),
                digest: config.tenants.get(name).map(digest_views).unwrap_or_default(),
            };
            (name.as_str(), view)
        })
        .collect()
}

fn digest_views(digests: &BTreeMap<String, DigestSettings>) -> DigestsView<'_> {
    digests.iter().map(|(name, digest)| (name.as_str(), digest.into())).collect()
}

impl<'a> MailView<'a> {
    fn new(sender: &'a Sender, dkim: Option<DkimView<'a>>) -> Self {
        Self { from: from(sender), reply_to: sender.reply_to.as_deref(), domain: &sender.domain, dkim }
    }
}

fn from(Sender { name, address, .. }: &Sender) -> String {
    if name.is_empty() { address.clone() } else { format!("{name} <{address}>") }
}

impl<'a> DkimView<'a> {
    fn new(signing: &'a DkimConfig, dkim: &Dkim) -> Self {
        Self {
            selector: &signing.selector,
            domain: &signing.domain,
            key_file: signing.key_file(),
            algorithm: dkim.algorithm(),
            dns: Record { name: dkim.record_name(), r#type: "TXT", value: dkim.record() },
        }
    }
}

impl<'a> From<&'a CategorySettings> for CategoryView<'a> {
    fn from(CategorySettings { section, priority, min_count, max_age }: &'a CategorySettings) -> Self {
        let max_age = max_age.map(words::written);
        Self { title: section.as_deref(), priority: *priority, min_count: *min_count, max_age }
    }
}

impl<'a> From<&'a DigestSettings> for DigestView<'a> {
    fn from(digest: &'a DigestSettings) -> Self {
        Self {
            cadence: digest.cadence.to_string(),
            first_now: digest.first_now.map(words::written),
            throttle: digest.throttle.map(words::written),
            throttled: digest.throttle.map(|_| digest.throttled.name()),
            linger: digest.linger.map(words::written),
            undo: digest.undo.map(words::written),
            zone: digest.zone.as_deref().unwrap_or("UTC"),
            spread: digest.spread.map(words::written),
            quiet: digest.quiet.times().iter().map(ToString::to_string).collect(),
            template: &digest.template,
            max_items: digest.max_items,
            max_lines: digest.max_lines,
            max_events: digest.max_events,
            more_url: digest.more_url.as_deref(),
            title: digest.title.as_deref(),
            description: digest.description.as_deref(),
            track: digest.track.counted().map(Counted::name).collect(),
            seen: digest.seen.as_ref().map(seen::SeenView::new),
            choices: digest.choices.entries().iter().map(ToString::to_string).collect(),
            delay: digest.delay.iter().map(|(category, wait)| (category.as_str(), words::written(*wait))).collect(),
            categories: digest.categories.iter().map(|(category, title)| (category.as_str(), title.as_str())).collect(),
            category: digest.category.iter().map(|(category, settings)| (category.as_str(), settings.into())).collect(),
        }
    }
}
