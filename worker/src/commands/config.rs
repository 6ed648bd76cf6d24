//! `tidings config`: the effective settings, or the next slots for a cadence.

use std::{collections::BTreeMap, fmt};

use anyhow::Context as _;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use tidings_mail::render::{self, TemplateRenderer};
use tidings_model::{Cadence, ParseError, rules::working_days, settings::DigestSettings, when, zone_data};

use crate::{
    Config,
    config::{
        self, ConfigProblem, ConfigTable, ConfigValue, DkimConfig, StreamConfig, StreamsConfig, ToConfigValue as _,
        ToTable as _, unless_empty,
    },
    error::UsageError,
    names, storage,
};

mod in_force;
mod webhooks;

use in_force::TenantSettingsView;

/// The commands about the configuration.
#[derive(Debug, clap::Subcommand)]
pub enum ConfigCommand {
    /// Check tidings.toml, the environment and the templates, and print the effective settings
    #[command(after_help = "Examples:\n  \
        tidings config check --config /etc/tidings/tidings.toml\n  \
        tidings config check --tenant acme\n  \
        tidings config check --database\n  \
        tidings config check --cadence 'weekdays 08:00' --zone Europe/Berlin\n  \
        tidings config check --cadence 'weekdays 08:00' --zone Asia/Jerusalem --locale he-IL\n\n\
        Passwords and keys are shown as ***. The command connects only to the database of [directory] and, with --database, to Tidings' own.")]
    Check {
        /// Check this cadence instead, and show its next three slots
        #[arg(long, value_name = "WORDS")]
        cadence: Option<String>,
        /// The IANA time zone of the slots
        #[arg(long, requires = "cadence", default_value = "UTC")]
        zone: String,
        /// A recipient's locale; its region decides the working days of `weekdays`
        #[arg(long, value_name = "TAG", requires = "cadence", default_value = "")]
        locale: String,
        /// Print the effective settings of this tenant, and where each comes from
        #[arg(long, value_name = "NAME", conflicts_with = "cadence")]
        tenant: Option<String>,
        /// Also compare the names of digest types and tenants with those in the database
        #[arg(long, conflicts_with = "cadence")]
        database: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Note that `--cadence` works without a configuration.
///
/// # Errors
/// [`config::ConfigError`] if the configuration is wrong, a template is missing or the DKIM key cannot sign;
/// [`UsageError`] if an argument is wrong.
pub(crate) async fn run(
    ConfigCommand::Check { cadence, zone, locale, tenant, database, json }: &ConfigCommand,
    config: impl FnOnce() -> Result<Config, config::ConfigError>,
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
        anstream::eprintln!("The configuration is valid.");
    }
    Ok(true)
}

fn check_cadence(words: &str, zone: &str, locale: &str, json: bool) -> anyhow::Result<()> {
    let cadence: Cadence = words.parse().map_err(|error: ParseError| UsageError(error.to_string()))?;
    let cadence = cadence.on_working_days(|| working_days::of_locale(locale, None));
    let zone = tidings_model::time_zone(zone).map_err(|problem| UsageError(format!("--zone {zone:?}: {problem}")))?;
    let slots = NextSlots::new(&cadence, &zone, Timestamp::now());
    let shown = if json { serde_json::to_string_pretty(&slots)? } else { slots.to_string() };
    anstream::println!("{shown}");
    Ok(())
}

async fn check(config: &Config, tenant: Option<&str>, json: bool) -> anyhow::Result<()> {
    let renderer = TemplateRenderer::new(config.templates.as_deref()).context("the templates cannot be read")?;
    let mut problems = missing_templates(config, &renderer.names());
    problems.extend(super::template::words_of_nobody(&renderer, config));
    let dkim = signature(config.dkim.as_ref(), &mut problems);
    let streams = show_streams(&config.streams, config, &mut problems);
    let mut unsigned = Vec::new();
    let tenants = show_tenants(config, &mut unsigned);
    problems.extend(unsigned.into_iter().filter(|problem| !problems.contains(problem)).collect::<Vec<_>>());
    problems.extend(config.key_problems());
    problems.extend(config.gateway_problem());
    problems.extend(config.seen_problems());
    problems.extend(config.subscription_problems());
    let unchecked = match config.asked_directory().await {
        Ok((_, unchecked)) => unchecked,
        Err(config::ConfigError::Wrong(wrong)) => {
            problems.extend(wrong);
            None
        }
        Err(config::ConfigError::Unreadable { .. }) => None,
    };
    if !problems.is_empty() {
        return Err(config::ConfigError::Wrong(problems).into());
    }
    let shown = if let Some(name) = tenant {
        let shown = TenantSettingsView::new(config, name)?;
        if json { serde_json::to_string_pretty(&shown)? } else { shown.to_string() }
    } else {
        let shown = show(config, dkim, streams, tenants);
        if json { serde_json::to_string_pretty(&shown)? } else { toml::to_string(&shown)? }
    };
    anstream::println!("{}", shown.trim_end());
    if config.digests.is_empty() {
        anstream::eprintln!("No digest type is configured: add [digest.activity] with cadence = \"daily 08:00\".");
    }
    for warning in config.warnings().into_iter().chain(config.door_warnings()).chain(unchecked) {
        anstream::eprintln!("warning: {warning}");
    }
    for warning in zone_data().warnings() {
        anstream::eprintln!("warning: {warning}");
    }
    Ok(())
}

/// Warns about names that are only in the database.
async fn compare_names(config: &Config) -> anyhow::Result<()> {
    let store = storage::open(&config.database_url).await?;
    for warning in names::warnings(&*store, config).await? {
        anstream::eprintln!("warning: {warning}");
    }
    Ok(())
}

pub(super) fn missing_templates(config: &Config, names: &[String]) -> Vec<ConfigProblem> {
    let missing = config.digest_tables().filter(|(_, digest)| !names.contains(&digest.template));
    let problem = |(table, digest): (String, &DigestSettings)| {
        let (names, usual) = (names.join(", "), render::DEFAULT);
        let problem = format!("there is no such template; choose one of: {names}. Until then, {usual:?} is used");
        ConfigProblem::new("templates", format!("{table}.template"), problem).with_value(&digest.template)
    };
    missing.map(problem).collect()
}

/// Adds a problem if the key cannot sign.
fn signature(signing: Option<&DkimConfig>, problems: &mut Vec<ConfigProblem>) -> Option<ConfigTable> {
    let signing = signing?;
    match signing.signer() {
        Ok(dkim) => Some(signing.show(&dkim)),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

/// Sender and signature appear only if they differ from `[mail]`.
fn show_streams(streams: &StreamsConfig, config: &Config, problems: &mut Vec<ConfigProblem>) -> ConfigTable {
    let mut shown = |stream: &StreamConfig| {
        let own = stream.dkim.as_ref().filter(|own| config.dkim.as_ref() != Some(*own));
        let mut shown = stream.to_table().without_defaults(&config.sender.to_table());
        shown.insert_table("dkim", signature(own, problems));
        Some(ConfigValue::Table(shown))
    };
    ConfigTable::of([("bulk", shown(&streams.bulk)), ("transactional", shown(&streams.transactional))])
}

/// Shows each tenant's brand, its streams if they differ, and all effective settings for its digest types,
/// inherited or not.
fn show_tenants(config: &Config, problems: &mut Vec<ConfigProblem>) -> ConfigTable {
    let shown = config.tenants.iter().map(|(name, tenant)| {
        let mut shown = tenant.brand.to_table();
        shown.insert_first("was", config::former_names(&config.names.tenants, name));
        let mut origins = tenant.streams.both().into_iter().flat_map(|stream| stream.origins.values());
        let differs = origins.any(|origin| origin.key.starts_with("tenant."));
        shown.insert_table("stream", differs.then(|| show_streams(&tenant.streams, config, problems)));
        shown.insert_table("digest", (!tenant.digests.is_empty()).then(|| show_digests(&tenant.digests, config)));
        (name.clone(), ConfigValue::Table(shown))
    });
    shown.collect()
}

fn show_digests(digests: &BTreeMap<String, DigestSettings>, config: &Config) -> ConfigTable {
    let shown = digests.iter().map(|(name, digest)| {
        let mut shown = config::show_digest(digest);
        shown.insert_first("was", config::former_names(&config.names.digests, name));
        (name.clone(), ConfigValue::Table(shown))
    });
    shown.collect()
}

/// Shows the settings as in `tidings.toml`, without passwords and keys. The Temporal connection has its own
/// environment variables and file.
fn show(config: &Config, dkim: Option<ConfigTable>, streams: ConfigTable, tenants: ConfigTable) -> ConfigTable {
    let mut mail = config.sender.to_table();
    mail.insert_table("dkim", dkim);
    let relays =
        config.named_relays().filter_map(|(name, relay)| Some((name.clone(), ConfigValue::Table(relay.show()?))));
    let subscriptions = config.subscriptions.iter().map(config::show_subscription).collect();
    let temporal = ConfigTable::of([
        ("address", config.temporal.address().show()),
        ("namespace", config.temporal.namespace().show()),
        ("tls", Some(ConfigValue::Flag(config.temporal.connection.tls_options.is_some()))),
        ("api_key", config.temporal.connection.api_key.as_ref().map(|_| "***").show()),
    ]);
    let doors = config.doors_in_words().into_iter().map(|(key, words)| (key, ConfigValue::Text(words)));
    ConfigTable::of([
        ("database_url", config.database_url.to_string().show()),
        ("templates", config.templates.show()),
        ("task_queue", config.task_queue.show()),
        ("metrics_listen", config.metrics_listen.show()),
        ("cached_workflows", config.cached_workflows.show()),
        ("link_keys_file", config.link_keys.file().show()),
        ("mail", Some(ConfigValue::Table(mail))),
        ("relay", Some(ConfigValue::Table(relays.collect()))),
        ("stream", Some(ConfigValue::Table(streams))),
        ("gateway", config.gateway.show().map(ConfigValue::Table)),
        ("webhook", webhooks::webhooks(config).unless_empty()),
        ("recipients", Some(ConfigValue::Table(config.recipients.to_table()))),
        ("directory", config.directory.as_ref().map(|directory| ConfigValue::Table(directory.show()))),
        ("retention", Some(ConfigValue::Table(config.retention.to_table()))),
        ("digest", Some(ConfigValue::Table(show_digests(&config.digests, config)))),
        ("tenant", tenants.unless_empty()),
        ("subscribe", unless_empty(subscriptions)),
        ("temporal", Some(ConfigValue::Table(temporal))),
        ("zone_data", Some(ConfigValue::Zones(zone_data()))),
        ("doors", Some(ConfigValue::Table(doors.collect()))),
    ])
}

const SHOWN: usize = 3;

#[derive(Debug, Serialize)]
struct NextSlots {
    cadence: String,
    explanation: String,
    zone: String,
    /// Empty for `instant`, `after` and `never`, which follow the events.
    slots: Vec<CadenceSlot>,
}

#[derive(Debug, Serialize)]
struct CadenceSlot {
    local: String,
    utc: Timestamp,
}

impl NextSlots {
    fn new(cadence: &Cadence, zone: &TimeZone, now: Timestamp) -> Self {
        let slot = |at: Timestamp| CadenceSlot { local: when::local_time(at, zone.clone()), utc: at };
        let next = |at: &Timestamp| Some(cadence.due_at(*at, zone));
        let count = if cadence.follows_the_calendar() { SHOWN } else { 0 };
        Self {
            cadence: cadence.to_string(),
            explanation: cadence.explain(),
            zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            slots: std::iter::successors(next(&now), next).take(count).map(slot).collect(),
        }
    }
}

impl fmt::Display for NextSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cadence, explanation, zone, slots } = self;
        let zone = if slots.is_empty() { String::new() } else { format!(", in {zone}") };
        write!(f, "{cadence}: {}{zone}", explanation.trim_end_matches('.'))?;
        slots.iter().try_for_each(|slot| write!(f, "\n  {}  {}", slot.local, slot.utc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(words: &str, zone: &str, now: &str) -> NextSlots {
        NextSlots::new(&words.parse().unwrap(), &TimeZone::get(zone).unwrap(), now.parse().unwrap())
    }

    #[test]
    fn the_next_three_slots_are_shown_in_the_zone_and_in_utc() {
        let slots = slots("daily 08:00", "Europe/Berlin", "2026-10-23T06:00:00Z");
        assert_eq!(
            slots.to_string(),
            "daily 08:00: every day at 08:00, in Europe/Berlin
  Sat 2026-10-24 08:00:00 CEST  2026-10-24T06:00:00Z
  Sun 2026-10-25 08:00:00 CET  2026-10-25T07:00:00Z
  Mon 2026-10-26 08:00:00 CET  2026-10-26T07:00:00Z"
        );
    }

    #[test]
    fn a_cadence_without_slots_is_explained_without_a_zone() {
        let slots = slots("after 15m", "Europe/Berlin", "2026-10-23T06:00:00Z");
        assert_eq!(slots.to_string(), "after 15m: 15m after the first event");
    }
}
