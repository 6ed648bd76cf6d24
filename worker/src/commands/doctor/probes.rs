//! The checks of `tidings doctor`. They read, connect and log in, and change nothing.

use std::{path::Path, sync::Arc, time::Duration};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use rustix::{
    fs::{StatVfs, statvfs},
    process::{Resource, getrlimit},
};
use temporalio_client::{Client, NamespacedClient as _};
use tidings_mail::{
    render::TemplateRenderer,
    smtp::{AttemptOutcome, SmtpTimeouts},
};
use tidings_model::{
    process::{ClockOffsets, clock_offset},
    settings::RelaySettings,
    zone_data,
};
use tidings_services::{installation, relays::RelaySet};
use tidings_store::Store;
use uuid::Uuid;

use super::{CheckArea, Finding, PATIENCE, within};
use crate::{
    Config,
    commands::{config::missing_templates, migrate, migrate::AttributeProbe, stats},
    config::ConfigError,
    error::in_words,
    limits,
    worker::server_check,
};

/// Below this part of a disk, or [`LEAST_BYTES`], SQLite may soon refuse to write.
const LEAST_PART: u64 = 20;
const LEAST_BYTES: u64 = 1 << 30;
/// A query slower than this delays every step.
const SLOW_QUERY: Duration = Duration::from_millis(250);
/// A gateway and a worker together need more than a login shell's usual 1,024 under load.
const FEW_DESCRIPTORS: u64 = 4096;

/// What `tidings config check` rejects or warns about.
pub(super) async fn configuration(config: &Config) -> Vec<Finding> {
    const AREA: CheckArea = CheckArea::Configuration;
    let mut problems = match TemplateRenderer::new(config.templates.as_deref()) {
        Ok(renderer) => missing_templates(config, &renderer.names()),
        Err(error) => {
            return vec![Finding::failed(AREA, "templates", error.to_string(), "see `tidings template list`")];
        }
    };
    problems.extend(config.key_problems());
    problems.extend(config.gateway_problem());
    problems.extend(config.seen_problems());
    problems.extend(config.subscription_problems());
    let mut warnings = config.warnings();
    warnings.extend(config.door_warnings());
    let mut findings = Vec::new();
    match tokio::time::timeout(PATIENCE, config.asked_directory()).await {
        Ok(Ok((_, unchecked))) => warnings.extend(unchecked),
        Ok(Err(ConfigError::Wrong(wrong))) => problems.extend(wrong),
        Ok(Err(error)) => findings.push(Finding::failed(AREA, "directory", error.to_string(), "")),
        Err(_) => findings.push(Finding::failed(AREA, "directory", "did not respond in time", "start its database")),
    }
    findings.extend(problems.iter().map(|problem| Finding::failed(AREA, "file", problem.to_string(), "")));
    findings.extend(warnings.iter().map(|warning| Finding::warning(AREA, "file", warning.to_string(), "")));
    if findings.is_empty() {
        findings.push(Finding::ok(AREA, "file", "is valid"));
    }
    findings
}

/// The schema was checked when the store was opened.
pub(super) async fn database(config: &Config, store: &dyn Store) -> Vec<Finding> {
    const AREA: CheckArea = CheckArea::Database;
    let begun = Timestamp::now();
    let clock = match within(async { Ok(store.database_clock().await?) }).await {
        Ok(clock) => clock,
        Err(error) => return vec![Finding::failed(AREA, "query", in_words(&error), "see its log")],
    };
    let ended = Timestamp::now();
    let took = ended.duration_since(begun);
    let found =
        format!("{} has the tables of this version and responds in {} ms", config.database_url, took.as_millis());
    let mut findings = vec![if took.unsigned_abs() > SLOW_QUERY {
        Finding::warning(AREA, "query", found, "move the database closer, or give it more resources")
    } else {
        Finding::ok(AREA, "query", found)
    }];
    // An SQLite file has the clock of this machine.
    if let Some(file) = config.database_url.sqlite_file() {
        findings.push(disk(AREA, file));
    } else {
        findings.push(clock_finding(clock_offset(begun, clock, ended)));
    }
    findings
}

fn clock_finding(ahead: SignedDuration) -> Finding {
    let milliseconds = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
    let offsets = ClockOffsets { store_ms: Some(milliseconds), temporal_ms: None };
    match offsets.clock_fault() {
        Some(fault) => {
            let found = format!("this machine is {fault}");
            Finding::failed(CheckArea::Database, "clock", found, "set both clocks, for example by NTP")
        }
        None => Finding::ok(CheckArea::Database, "clock", "agrees with this machine's"),
    }
}

fn disk(area: CheckArea, file: &Path) -> Finding {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    match statvfs(folder) {
        Ok(disk) => free_space(area, &disk),
        Err(error) => Finding::skipped(area, "disk", format!("{}: {error}", folder.display())),
    }
}

fn free_space(area: CheckArea, disk: &StatVfs) -> Finding {
    let (free, size) = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize);
    let found = format!("{} MiB free of {} MiB", free >> 20, size >> 20);
    if free < LEAST_BYTES || free < size / LEAST_PART {
        Finding::warning(area, "disk", found, "make room, or shorten [retention]")
    } else {
        Finding::ok(area, "disk", found)
    }
}

pub(super) async fn temporal(temporal: &Client, store: Option<&Arc<dyn Store>>) -> Vec<Finding> {
    const AREA: CheckArea = CheckArea::Temporal;
    let mut findings = Vec::new();
    let namespace = temporal.namespace();
    match within(server_check::server_version(temporal)).await {
        Ok(version) => findings.push(match server_check::old_server(&version) {
            Some(warning) => Finding::warning(AREA, "server", format!("{version}: {warning}"), "upgrade the server"),
            None => Finding::ok(AREA, "server", format!("version {version}, namespace {namespace}")),
        }),
        Err(error) => return vec![Finding::failed(AREA, "namespace", in_words(&error), "")],
    }
    let attributes = within(async { Ok(migrate::probe_attributes(temporal).await) }).await;
    findings.push(match attributes {
        Ok(AttributeProbe::Known) => Finding::ok(AREA, "search attributes", "are registered"),
        Ok(AttributeProbe::Unknown(reason)) => {
            Finding::failed(AREA, "search attributes", reason, "run `tidings migrate`")
        }
        Ok(AttributeProbe::Unsaid) => Finding::skipped(AREA, "search attributes", "the server does not report them"),
        Err(error) => Finding::failed(AREA, "search attributes", in_words(&error), "see the visibility store's log"),
    });
    if let Some(store) = store {
        let checked = within(async { Ok(installation::check(&**store, temporal).await?) }).await;
        findings.push(match checked {
            Ok(()) => Finding::ok(AREA, "installation", format!("owns namespace {namespace} with this database")),
            Err(error) => Finding::failed(AREA, "installation", in_words(&error), ""),
        });
    }
    findings
}

/// Connects to each relay in use and logs in, at the same time.
pub(super) async fn relays(config: &Config) -> Vec<Finding> {
    let checks = config.named_relays().map(|(name, relay)| async move {
        match relay.settings() {
            Ok(settings) => relay_finding(name, settings).await,
            Err(problem) => Finding::failed(CheckArea::Relays, name, problem.to_string(), ""),
        }
    });
    join_all(checks).await
}

async fn relay_finding(name: &str, settings: RelaySettings) -> Finding {
    const AREA: CheckArea = CheckArea::Relays;
    let limits = Duration::from_secs(10);
    let timeouts = SmtpTimeouts { greeting: limits, command: limits, ..SmtpTimeouts::default() };
    let (address, remedy) = (settings.relay.to_string(), format!("run `tidings relays test {name}`"));
    let relays = match RelaySet::new(&[(name.to_owned(), settings)].into(), timeouts) {
        Ok(relays) => relays,
        Err(error) => return Finding::failed(AREA, name, error.to_string(), &remedy),
    };
    let Some(route) = relays.route(name, Uuid::new_v4()) else {
        return Finding::skipped(AREA, name, "is not in use");
    };
    match tokio::time::timeout(PATIENCE, route.check()).await {
        Ok(Ok(true)) => Finding::ok(AREA, name, format!("{address} accepts this login over TLS")),
        Ok(Ok(false)) => Finding::ok(AREA, name, format!("{address} accepts connections without TLS")),
        Ok(Err(AttemptOutcome { detail, .. })) => Finding::failed(AREA, name, format!("{address}: {detail}"), &remedy),
        Err(_) => Finding::failed(AREA, name, format!("{address}: no response within {PATIENCE:?}"), &remedy),
    }
}

/// What waits, and why.
pub(super) async fn work(config: &Config, store: &dyn Store, temporal: &Client) -> Vec<Finding> {
    const AREA: CheckArea = CheckArea::Work;
    let collected = within(Box::pin(stats::collect_latest(config, store, temporal))).await;
    let stats = match collected {
        Ok(stats) => stats,
        Err(error) => return vec![Finding::failed(AREA, "statistics", in_words(&error), "run `tidings stats`")],
    };
    let found = stats::attention(&stats);
    if found.is_empty() {
        let open = format!("{} open keys, nothing is late", stats.open_digest_count);
        return vec![Finding::ok(AREA, "backlog", open)];
    }
    found.into_iter().map(|(what, remedy)| Finding::failed(AREA, "backlog", what, remedy)).collect()
}

pub(super) fn machine() -> Vec<Finding> {
    const AREA: CheckArea = CheckArea::Machine;
    let zones = zone_data();
    let warnings = zones.warnings();
    let mut findings = vec![if warnings.is_empty() {
        Finding::ok(AREA, "zone data", format!("release {}", zones.release))
    } else {
        Finding::warning(AREA, "zone data", warnings.join("; "), "")
    }];
    // A worker and a gateway raise their soft limit to this.
    let most = getrlimit(Resource::Nofile).maximum;
    findings.push(match most {
        Some(most) if most < FEW_DESCRIPTORS => {
            let remedy = "raise the hard limit: ulimit -Hn, LimitNOFILE= of systemd, ulimits of a container";
            Finding::warning(AREA, "file descriptors", format!("at most {most}"), remedy)
        }
        Some(most) => Finding::ok(AREA, "file descriptors", format!("at most {most}")),
        None => Finding::ok(AREA, "file descriptors", "unlimited"),
    });
    if let Some(bytes) = limits::memory() {
        findings.push(Finding::ok(AREA, "memory", format!("the control group allows {} MiB", bytes >> 20)));
    }
    findings
}
