//! `tidings config`: checks the configuration and prints the effective settings.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::Serialize;
use tidings_mail::render::{self, Renderer};
use tidings_model::{Cadence, ParseError, ZoneData, rules::working_days, settings::DigestSettings, zone_data};

use crate::{
    Config,
    config::{self, Problem, Table, Tenant},
    error::Usage,
    names, storage,
};

mod directory;
mod gateway;
mod in_force;
mod mail;
mod next_slots;
mod retention;
mod streams;
mod subscriptions;
mod tenants;
mod webhooks;

use in_force::InForce;
use mail::{DkimView, MailView};
use next_slots::NextSlots;

/// The commands about the configuration.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Checks tidings.toml, the environment and the templates, and prints the effective settings
    #[command(after_help = "Examples:\n  \
        tidings config check --config /etc/tidings/tidings.toml\n  \
        tidings config check --tenant acme\n  \
        tidings config check --database\n  \
        tidings config check --cadence 'weekdays 08:00' --zone Europe/Berlin\n  \
        tidings config check --cadence 'weekdays 08:00' --zone Asia/Jerusalem --locale he-IL\n\n\
        Passwords and keys are shown as ***. The command connects to nothing but the database of [directory], and with --database to Tidings' own.")]
    Check {
        /// Check these words instead, and show the next three slots
        #[arg(long, value_name = "WORDS")]
        cadence: Option<String>,
        /// The IANA time zone of the slots
        #[arg(long, requires = "cadence", default_value = "UTC")]
        zone: String,
        /// A recipient's locale, whose region has the working days of `weekdays`
        #[arg(long, value_name = "TAG", requires = "cadence", default_value = "")]
        locale: String,
        /// Print what is in force for this tenant, and where each setting comes from
        #[arg(long, value_name = "NAME", conflicts_with = "cadence")]
        tenant: Option<String>,
        /// Also compare the names of digest types and tenants with those in the database
        #[arg(long, conflicts_with = "cadence")]
        database: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command. Only the check of the configuration itself loads the configuration.
///
/// # Errors
/// [`config::Error`] when the configuration is wrong, a digest type's template does not exist, or the DKIM key does not
/// sign; [`Usage`] when the words are not a cadence, the zone does not exist, or the tenant has no table.
pub(crate) async fn run(
    Command::Check { cadence, zone, locale, tenant, database, json }: &Command,
    config: impl FnOnce() -> Result<Config, config::Error>,
) -> anyhow::Result<bool> {
    if let Some(words) = cadence {
        check_cadence(words, zone, locale, *json)?;
        return Ok(true);
    }
    let config = config()?.ready_to_send()?;
    check(&config, tenant.as_deref(), *json).await?;
    if *database {
        compare_names(&config).await?;
    }
    if !json {
        anstream::eprintln!("The configuration can be used.");
    }
    Ok(true)
}

fn check_cadence(words: &str, zone: &str, locale: &str, json: bool) -> anyhow::Result<()> {
    let cadence: Cadence = words.parse().map_err(|error: ParseError| Usage(error.to_string()))?;
    let cadence = cadence.on_working_days(|| working_days::of_locale(locale, None));
    let zone = tidings_model::time_zone(zone).map_err(|problem| Usage(format!("--zone {zone:?}: {problem}")))?;
    let slots = NextSlots::new(&cadence, &zone, Timestamp::now());
    let shown = if json { serde_json::to_string_pretty(&slots)? } else { slots.to_string() };
    anstream::println!("{shown}");
    Ok(())
}

async fn check(config: &Config, tenant: Option<&str>, json: bool) -> anyhow::Result<()> {
    let renderer = Renderer::new(config.templates.as_deref()).context("the templates cannot be read")?;
    let mut problems = missing_templates(config, &renderer.names());
    problems.extend(super::template::words_of_nobody(&renderer, config));
    let dkim = config.dkim.as_ref().and_then(|signing| match signing.signer() {
        Ok(dkim) => Some((signing, dkim)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    });
    let (streams, unsigned) = streams::streams(&config.streams, config);
    problems.extend(unsigned);
    let (tenants, unsigned) = tenants::tenants(config);
    problems.extend(unsigned.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
    problems.extend(config.key_problems());
    problems.extend(config.gateway_problem());
    problems.extend(config.seen_problems());
    problems.extend(config.subscription_problems());
    let unchecked = directory::check(config, &mut problems).await;
    if !problems.is_empty() {
        return Err(config::Error::Wrong(problems).into());
    }
    let shown = if let Some(name) = tenant {
        let shown = InForce::new(config, name)?;
        if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() }
    } else {
        let dkim = dkim.as_ref().map(|(signing, dkim)| DkimView::new(signing, dkim));
        let shown = ConfigView::new(config, streams, tenants, dkim);
        if json { serde_json::to_string_pretty(&shown)? } else { toml::to_string(&shown)? }
    };
    anstream::println!("{}", shown.trim_end());
    if config.digests.is_empty() {
        anstream::eprintln!("There is no digest type: add [digest.activity] with cadence = \"daily 08:00\".");
    }
    for warning in config.warnings().into_iter().chain(config.door_warnings()).chain(unchecked) {
        anstream::eprintln!("warning: {warning}");
    }
    for warning in zone_data().warnings() {
        anstream::eprintln!("warning: {warning}");
    }
    Ok(())
}

/// Prints the names that the database has and the file lacks.
async fn compare_names(config: &Config) -> anyhow::Result<()> {
    let store = storage::open(&config.database_url).await?;
    for warning in names::warnings(&*store, config).await? {
        anstream::eprintln!("warning: {warning}");
    }
    Ok(())
}

fn missing_templates(config: &Config, names: &[String]) -> Vec<Problem> {
    let everybodys = config.digests.iter().map(|(name, digest)| (format!("digest.{name}.template"), digest));
    let tenants = config.tenants.iter().flat_map(|(tenant, Tenant { digests, .. })| {
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

/// The digest types, of which `former` are the names that they had before: today's by former one.
fn digest_views<'a>(
    digests: &'a BTreeMap<String, DigestSettings>,
    former: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, Table> {
    let view = |(name, digest): (&'a String, &DigestSettings)| {
        let mut shown = config::show_digest(digest);
        shown.insert_first("was", config::was(former, name));
        (name.as_str(), shown)
    };
    digests.iter().map(view).collect()
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
    cached_workflows: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_keys_file: Option<&'a Path>,
    mail: MailView<'a>,
    relay: BTreeMap<&'a str, streams::RelayView<'a>>,
    stream: streams::StreamsView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<gateway::GatewayView<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    webhook: BTreeMap<&'a str, webhooks::WebhookView>,
    recipients: RecipientsView,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<directory::DirectoryView<'a>>,
    retention: retention::RetentionView<'a>,
    digest: BTreeMap<&'a str, Table>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tenant: BTreeMap<&'a str, tenants::TenantView<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subscribe: Vec<subscriptions::SubscriptionView<'a>>,
    temporal: TemporalView<'a>,
    zone_data: &'static ZoneData,
    doors: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct RecipientsView {
    #[serde(skip_serializing_if = "Option::is_none")]
    cap: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capped: Option<&'static str>,
    soft_bounces: u32,
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
    fn new(
        config: &'a Config,
        stream: streams::StreamsView<'a>,
        tenant: BTreeMap<&'a str, tenants::TenantView<'a>>,
        dkim: Option<DkimView<'a>>,
    ) -> Self {
        Self {
            database_url: config.database_url.to_string(),
            templates: config.templates.as_deref(),
            task_queue: &config.task_queue,
            metrics_listen: config.metrics_listen,
            cached_workflows: config.cached_workflows,
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
            digest: digest_views(&config.digests, &config.names.digests),
            tenant,
            subscribe: config.subscriptions.iter().map(subscriptions::SubscriptionView::new).collect(),
            temporal: TemporalView {
                address: config.temporal.address(),
                namespace: config.temporal.namespace(),
                tls: config.temporal.connection.tls_options.is_some(),
                api_key: config.temporal.connection.api_key.as_ref().map(|_| "***"),
            },
            zone_data: zone_data(),
            doors: config.doors_in_words(),
        }
    }
}
