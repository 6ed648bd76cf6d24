//! The keys of `tidings.toml`, and their way into a [`Config`].

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use tidings_model::{
    names,
    settings::{Cap, FormerNames, Settings},
    words,
};
use toml::Spanned;

use super::{
    Config, digest,
    directory::{self, RawDirectory},
    door::ListenerKeys,
    former,
    gateway::RawGateway,
    inbox::RawInbox,
    layer::{Layer, Layers},
    link_keys,
    mail::RawMail,
    problem::{Checks, Overridable, Problem},
    relay::{self, RawRelay},
    retention::RawRetention,
    secret::database_url,
    sections,
    stream::{self, RawStreams, Streams},
    subscribe::{self, RawSubscribe},
    temporal::Temporal,
    tenant::{self, General, RawDigests, RawTenant},
};
use crate::registration;

/// The environment variable with the key of `[mail.dkim]`.
const DKIM_KEY: &str = "TIDINGS_DKIM_KEY";

const DATABASE: Overridable =
    Overridable { key: "database_url", variable: "TIDINGS_DATABASE_URL", default: "sqlite://.tidings/tidings.db" };

const METRICS: ListenerKeys = ListenerKeys { listen: "metrics_listen", tls: "metrics_tls", is_refused: true };

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    database_url: Option<Spanned<String>>,
    smtp_url: Option<Spanned<String>>,
    templates: Option<Spanned<String>>,
    task_queue: Option<Spanned<String>>,
    metrics_listen: Option<Spanned<String>>,
    metrics_tls: Option<Spanned<String>>,
    cached_workflows: Option<Spanned<i64>>,
    link_keys_file: Option<Spanned<String>>,
    #[serde(default)]
    mail: RawMail,
    #[serde(default)]
    relay: BTreeMap<String, Spanned<RawRelay>>,
    #[serde(default)]
    stream: RawStreams,
    #[serde(default)]
    gateway: RawGateway,
    #[serde(default)]
    inbox: RawInbox,
    #[serde(default)]
    subscribe: Vec<Spanned<RawSubscribe>>,
    #[serde(default)]
    recipients: RawRecipients,
    directory: Option<Spanned<RawDirectory>>,
    #[serde(default)]
    retention: RawRetention,
    #[serde(default)]
    digest: RawDigests,
    #[serde(default)]
    tenant: BTreeMap<String, Spanned<RawTenant>>,
}

/// The keys of `[recipients]`, which apply to all digest types together.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecipients {
    cap: Option<Spanned<String>>,
    capped: Option<Spanned<String>>,
    soft_bounces: Option<Spanned<i64>>,
}

impl RawConfig {
    /// Checks every key; `None` if a required value was wrong.
    pub fn check(self, checks: &mut Checks<'_>, temporal: Result<Temporal, Problem>) -> Option<Config> {
        let database_url = checks.secret_url(DATABASE, self.database_url.as_ref(), database_url);
        let relays = self.relays(checks);
        let templates = checks.value("templates", self.templates.as_ref(), folder);
        let task_queue = checks.value("task_queue", self.task_queue.as_ref(), task_queue);
        let mut listeners = Vec::new();
        let metrics_listen =
            METRICS.check(checks, &mut listeners, self.metrics_listen.as_ref(), self.metrics_tls.as_ref());
        let most_cached = u32::try_from(registration::CACHED).unwrap_or(u32::MAX);
        let cached_workflows = checks.count_to(most_cached, "cached_workflows", self.cached_workflows.as_ref());
        let mail = Layer::mail("mail", &self.mail, Some(DKIM_KEY));
        let sender = Layers::new([mail.clone()]).sender(checks);
        let [bulk, transactional] = self.stream.layers("").map(|stream| Layers::new([stream, mail.clone()]));
        let streams = Streams::check(bulk, transactional, &self.relay, checks);
        let digests = self.digest.iter().map(|(name, raw)| (name.clone(), digest::check(name, raw, checks))).collect();
        let general = General { digests: &self.digest, mail, streams: &self.stream, relays: &self.relay };
        let tenants = tenant::check(&self.tenant, &general, checks);
        if let (Some(streams), Some(tenants)) = (&streams, &tenants) {
            let all: Vec<_> = [streams].into_iter().chain(tenants.values().map(|tenant| &tenant.streams)).collect();
            stream::check_relays(&all, &self.relay, self.smtp_url.as_ref(), checks);
        }
        let names = self.names(checks);
        let cap = checks.value("recipients.cap", self.recipients.cap.as_ref(), cap);
        let capped = checks.value("recipients.capped", self.recipients.capped.as_ref(), digest::over_limit);
        let soft_bounces = checks.count("recipients.soft_bounces", self.recipients.soft_bounces.as_ref());
        let directory = self.directory.as_ref().map(|raw| directory::check(raw, checks));
        let inbox = self.inbox.check(checks);
        let tenants_digests = self.tenant.values().flat_map(|tenant| tenant.as_ref().digests().values());
        let adapts = self.digest.values().chain(tenants_digests).any(|digest| digest.as_ref().adapts());
        let retention = self.retention.check(inbox.keep, adapts, checks);
        let gateway = self.gateway.check(checks, &mut listeners);
        if gateway.as_ref().is_some_and(|gateway| gateway.pages.public_url.is_none()) {
            digest::report_uncounted("digest.", &self.digest, checks);
            for (name, tenant) in &self.tenant {
                digest::report_uncounted(&format!("tenant.{name}.digest."), tenant.as_ref().digests(), checks);
            }
        }
        let subscriptions = subscribe::check(&self.subscribe, checks);
        let temporal = checks.accept(temporal);
        let link_keys = link_keys::check(self.link_keys_file.as_ref(), checks);
        let (sender, dkim) = sender?;
        Some(Config {
            database_url: database_url?,
            relays: relays?,
            streams: streams?,
            templates,
            task_queue: task_queue.unwrap_or_else(|| names::TASK_QUEUE.to_owned()),
            metrics_listen,
            cached_workflows: cached_workflows.map(|count| count as usize),
            sender,
            dkim,
            digests,
            tenants: tenants?,
            names: names?,
            cap,
            capped: capped.unwrap_or_default(),
            soft_bounces: soft_bounces.unwrap_or(Settings::SOFT_BOUNCES),
            directory: match directory {
                Some(directory) => Some(directory?),
                None => None,
            },
            retention,
            gateway: gateway?,
            inbox,
            subscriptions: subscriptions?,
            link_keys: link_keys?,
            temporal: temporal?,
            sections: sections::fingerprints(checks.text()),
            listeners,
            exposed_password: checks.exposed_password(),
        })
    }

    /// Checks the names that digest types and tenants had before.
    fn names(&self, checks: &mut Checks<'_>) -> Option<FormerNames> {
        let digests = self.digest.iter().map(|(name, raw)| (name.as_str(), raw.as_ref().was()));
        let digests = former::check("digest", digests, checks);
        let tenants = self.tenant.iter().map(|(name, raw)| (name.as_str(), raw.as_ref().was()));
        let tenants = former::check("tenant", tenants, checks);
        Some(FormerNames { digests: digests?, tenants: tenants? })
    }

    /// Checks the relays of the tables and the relay of `smtp_url`.
    fn relays(&self, checks: &mut Checks<'_>) -> Option<BTreeMap<String, relay::Relay>> {
        let smtp_url = self.smtp_url.as_ref();
        let named = self.relay.iter().map(|(name, raw)| {
            let relay = relay::check(name, raw, smtp_url, checks);
            Some((name.clone(), relay?))
        });
        let mut named: Vec<_> = named.collect();
        let tables = self.relay.iter().map(|(name, raw)| (name.as_str(), raw.as_ref().was.as_ref()));
        let former = former::check("relay", tables, checks);
        if !self.relay.contains_key(relay::DEFAULT) {
            named.push(relay::default_relay(smtp_url, checks).map(|relay| (relay::DEFAULT.to_owned(), relay)));
        }
        former.and_then(|_| named.into_iter().collect())
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        Ok(path)
    } else {
        Err("there is no such folder; leave the key out to use the embedded templates".into())
    }
}

/// Parses `5 in 1d`.
fn cap(text: &str) -> Result<Cap, String> {
    let wrong = || "is not a cap; write for example \"5 in 1d\"".to_owned();
    let [most, "in", within] = text.split_ascii_whitespace().collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let most = most.parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?;
    Ok(Cap { most, within: words::duration(within)? })
}

fn task_queue(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err(format!("is empty; write for example {:?}", names::TASK_QUEUE))
    } else {
        Ok(text.to_owned())
    }
}
