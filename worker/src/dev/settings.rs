//! Configuration and ports for `tidings dev`. It uses `tidings.toml` with every external service replaced by
//! a local one.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use tidings_model::{link_keys::LinkKeys, settings::DigestSettings};
use url::Url;

use super::DevArgs;
use crate::{
    Config,
    config::{RelayConfig, SecretUrl, TemporalConfig},
};

const CADENCE: &str = "after 5s";
/// A digest type with display names for recipients. The embedded template has the same name.
struct DevDigestType {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    categories: &'static [(&'static str, &'static str)],
}

const DIGESTS: [DevDigestType; 2] = [
    DevDigestType {
        name: "activity",
        title: "Activity",
        description: "Changes in the repositories that you follow.",
        categories: &[("change", "Changes"), ("fix", "Fixes"), ("revert", "Reverts"), ("dependency", "Dependencies")],
    },
    DevDigestType {
        name: "alerts",
        title: "Alerts",
        description: "Problems of the services that you run.",
        categories: &[("errors", "Errors"), ("latency", "Slow answers"), ("queue", "Queues"), ("disk", "Disks")],
    },
];

/// Loads `path`, but uses the local database, relay and Temporal server, and no DKIM signatures. Webhooks
/// stay if their secrets are set. In the demo, or without digest types, the types are `activity` and
/// `alerts`, due after seconds.
pub(super) fn dev_config(path: Option<&Path>, args: &DevArgs, folder: &Path) -> anyhow::Result<Config> {
    let mut config = Config::load_with(path, Ok(TemporalConfig::dev_server(args.temporal_port)?))?;
    config.database_url = SecretUrl::new(&format!("sqlite://{}", folder.join("tidings.db").display()));
    let sink = format!("smtp://127.0.0.1:{}", args.smtp_port);
    config.send_by(RelayConfig::with_address(
        args.smtp_url.as_ref().map_or(sink.as_str(), Url::as_str).parse().context("--smtp-url")?,
    ));
    for unready in config.remove_unready_webhooks() {
        eprintln!("warning: {unready}; the webhook is not served here");
    }
    let [gateway, api] = [args.gateway_port, args.api_port].map(|port| (Ipv4Addr::LOCALHOST, port).into());
    config.listen_on_this_machine(gateway, api, args.gateway_url());
    if config.link_keys.keys().is_none() {
        config.link_keys.set(link_keys(&folder.join("link-keys"))?);
    }
    if args.demo || config.digests.is_empty() {
        config.digests = dev_digests()?;
        config.tenants = BTreeMap::new();
    }
    Ok(config)
}

/// Reads the key in this folder, or creates one. Links from an earlier run should stay valid.
fn link_keys(path: &Path) -> anyhow::Result<LinkKeys> {
    let made = File::options().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => file.write_all(LinkKeys::generate().context("the system has no randomness")?.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| format!("{} cannot be written", path.display()))?;
    let keys = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    keys.parse().with_context(|| format!("{}: remove the file", path.display()))
}

fn dev_digests() -> anyhow::Result<BTreeMap<String, DigestSettings>> {
    let digest = |DevDigestType { name, title, description, categories }: DevDigestType| {
        let settings = DigestSettings {
            title: Some(title.to_owned()),
            description: Some(description.to_owned()),
            categories: categories.iter().map(|(name, title)| ((*name).to_owned(), (*title).to_owned())).collect(),
            ..DigestSettings::new(name, CADENCE.parse()?)
        };
        Ok((name.to_owned(), settings))
    };
    DIGESTS.into_iter().map(digest).collect()
}

#[derive(Clone, Copy, Debug)]
pub(super) struct DevPort {
    pub number: u16,
    pub flag: &'static str,
    pub what: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error("port {} for {} is not free{}: choose another with {} PORT", .port.number, .port.what, PortErrorDetail(.holder, .source), .port.flag)]
pub(super) struct PortError {
    port: DevPort,
    holder: Option<String>,
    source: io::Error,
}

struct PortErrorDetail<'a>(&'a Option<String>, &'a io::Error);

impl fmt::Display for PortErrorDetail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1.kind()) {
            (Some(holder), _) => write!(f, ", {holder} listens there"),
            (None, io::ErrorKind::AddrInUse) => Ok(()),
            (None, _) => write!(f, " ({})", self.1),
        }
    }
}

impl DevPort {
    /// Listens on loopback.
    ///
    /// # Errors
    /// The port is taken, or not allowed.
    pub fn listen(self) -> Result<TcpListener, PortError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.number)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map_err(|source| PortError { port: self, holder: port_holder(self.number), source })
    }
}

/// Finds the listening process as `NAME (process ID)`. Returns `None` without /proc, or if access is denied.
fn port_holder(port: u16) -> Option<String> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|table| listening_inode(table, port))?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let id_and_folder = |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path()));
    let (id, folder) = processes.filter_map(id_and_folder).find(|(_, folder)| has_open(folder, &socket))?;
    let name = fs::read_to_string(folder.join("comm")).ok()?;
    Some(format!("{} (process {id})", name.trim()))
}

/// Returns the tenth column of the row in state `LISTEN` with this local port (`proc_pid_net(5)`).
fn listening_inode(table: &str, port: u16) -> Option<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    fs::read_to_string(table).ok()?.lines().find_map(|row| {
        let columns: Vec<_> = row.split_whitespace().collect();
        let ours = columns.get(1)?.ends_with(&suffix) && *columns.get(3)? == LISTEN;
        ours.then(|| columns.get(9).map(|&inode| inode.to_owned()))?
    })
}

fn has_open(process: &Path, socket: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(socket)))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        args: DevArgs,
    }

    #[test]
    fn webhooks_of_configured_relays_are_served_if_their_secrets_are_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidings.toml");
        let text = "[relay.ses]\nurl_env = \"TIDINGS_TEST_UNSET_URL\"\nprovider = \"ses\"\n\
                    topic_arn = \"arn:aws:sns:eu-west-1:123456789012:tidings-events\"\n\
                    [relay.default]\nurl = \"smtp://192.0.2.1\"\nprovider = \"ses\"\n\
                    topic_arn = \"arn:aws:sns:eu-west-1:123456789012:tidings-events\"\n\
                    [relay.m]\nurl_env = \"TIDINGS_TEST_UNSET_URL\"\nprovider = \"mailgun\"\n\
                    webhook_secret_env = \"TIDINGS_TEST_UNSET_WEBHOOK\"\n\
                    [stream.bulk]\nrelays = [\"ses\", \"m\"]\n[stream.transactional]\nrelays = [\"default\"]\n";
        fs::write(&path, text).unwrap();
        let config = dev_config(Some(&path), &Options::parse_from(["dev"]).args, folder.path()).unwrap();
        assert_eq!(config.webhooks().unwrap().keys().collect::<Vec<_>>(), ["default", "ses"]);
        let relays: Vec<_> = config.named_relays().map(|(_, relay)| relay.settings().unwrap().relay).collect();
        assert_eq!(relays.iter().map(ToString::to_string).collect::<Vec<_>>(), ["smtp://127.0.0.1:1025"]);
    }

    #[test]
    fn a_taken_port_is_reported_with_its_holder_and_the_flag() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = taken.local_addr().unwrap().port();
        let error = DevPort { number, flag: "--smtp-port", what: "the mail sink" }.listen().unwrap_err().to_string();
        assert!(error.contains(&number.to_string()) && error.contains("--smtp-port"), "{error}");
        if cfg!(target_os = "linux") {
            assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        }
    }
}
