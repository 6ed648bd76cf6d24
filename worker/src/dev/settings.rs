//! The configuration of `tidings dev`: the one of `tidings.toml`, with everything outside replaced by what runs here.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    net::Ipv4Addr,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use tidings_model::{link_keys::LinkKeys, settings::DigestSettings};
use url::Url;

use super::Args;
use crate::{
    Config,
    config::{Relay, SecretUrl, Temporal},
};

/// Short enough to watch.
const CADENCE: &str = "after 5s";
/// A digest type with the names that its recipients read. An embedded template has its name.
struct Digest {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    categories: &'static [(&'static str, &'static str)],
}

/// The digest types where none are configured, and those of the demo.
const DIGESTS: [Digest; 2] = [
    Digest {
        name: "activity",
        title: "Activity",
        description: "Changes in the repositories that you follow.",
        categories: &[("change", "Changes"), ("fix", "Fixes"), ("revert", "Reverts"), ("dependency", "Dependencies")],
    },
    Digest {
        name: "alerts",
        title: "Alerts",
        description: "Problems of the services that you run.",
        categories: &[("errors", "Errors"), ("latency", "Slow answers"), ("queue", "Queues"), ("disk", "Disks")],
    },
];

/// Loads `path`, but with the database, the relay and the Temporal server of this machine, and without signatures. Webhooks whose
/// secrets are set stay. If no digest type is configured, and in the demo, the types are `activity` and `alerts` with a cadence of seconds.
pub(super) fn config(path: Option<&Path>, args: &Args, folder: &Path) -> anyhow::Result<Config> {
    let mut config = Config::load_with(path, Ok(Temporal::dev_server(args.temporal_port)?))?;
    config.database_url = SecretUrl::new(&format!("sqlite://{}", folder.join("tidings.db").display()));
    let sink = format!("smtp://127.0.0.1:{}", args.smtp_port);
    config.send_by(Relay::at(args.smtp_url.as_ref().map_or(sink.as_str(), Url::as_str).parse().context("--smtp-url")?));
    for unready in config.remove_unready_webhooks() {
        eprintln!("warning: {unready}; the webhook is not served here");
    }
    let [gateway, api] = [args.gateway_port, args.api_port].map(|port| (Ipv4Addr::LOCALHOST, port).into());
    config.listen_on_this_machine(gateway, api, args.gateway_url());
    if config.link_keys.keys().is_none() {
        config.link_keys.set(link_keys(&folder.join("link-keys"))?);
    }
    if args.demo || config.digests.is_empty() {
        config.digests = digests()?;
        config.tenants = BTreeMap::new();
    }
    Ok(config)
}

/// Reads the keys of this folder, or makes one. Links in messages of an earlier run go on working.
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

fn digests() -> anyhow::Result<BTreeMap<String, DigestSettings>> {
    let digest = |Digest { name, title, description, categories }: Digest| {
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        args: Args,
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
        let config = config(Some(&path), &Options::parse_from(["dev"]).args, folder.path()).unwrap();
        assert_eq!(config.webhooks().unwrap().keys().collect::<Vec<_>>(), ["default", "ses"]);
        let relays: Vec<_> = config.named_relays().map(|(_, relay)| relay.settings().unwrap().relay).collect();
        assert_eq!(relays.iter().map(ToString::to_string).collect::<Vec<_>>(), ["smtp://127.0.0.1:1025"]);
    }
}
