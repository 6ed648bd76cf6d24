//! The configuration of `tidings dev`: the one of `tidings.toml`, with everything outside replaced by what runs here.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use tidings_model::settings::DigestSettings;
use url::Url;

use super::Args;
use crate::{
    Config,
    config::{Relay, SecretUrl},
};

/// Short enough to watch.
const CADENCE: &str = "after 5s";
/// The digest types where none are configured, and those of the demo. Each has an embedded template of its name.
const DIGESTS: [&str; 2] = ["activity", "alerts"];

/// Loads `path`, but with the database, the relay and the Temporal server of this machine, and without signatures. If no digest
/// type is configured, and in the demo, the types are `activity` and `alerts` with a cadence of seconds.
pub(super) fn config(path: Option<&Path>, args: &Args, folder: &Path) -> anyhow::Result<Config> {
    let mut config = Config::load(path)?;
    config.database_url = SecretUrl::new(&format!("sqlite://{}", folder.join("tidings.db").display()));
    let sink = format!("smtp://127.0.0.1:{}", args.smtp_port);
    config.send_by(Relay::at(args.smtp_url.as_ref().map_or(sink.as_str(), Url::as_str).parse().context("--smtp-url")?));
    let connection = &mut config.temporal.connection;
    connection.target = format!("http://127.0.0.1:{}", args.temporal_port).parse()?;
    (connection.api_key, connection.tls_options, connection.headers) = (None, None, None);
    "default".clone_into(&mut config.temporal.client.namespace);
    if args.demo || config.digests.is_empty() {
        config.digests = digests()?;
        config.tenants = BTreeMap::new();
    }
    Ok(config)
}

fn digests() -> anyhow::Result<BTreeMap<String, DigestSettings>> {
    let digest = |name: &str| Ok((name.to_owned(), DigestSettings::new(name, CADENCE.parse()?)));
    DIGESTS.into_iter().map(digest).collect()
}
