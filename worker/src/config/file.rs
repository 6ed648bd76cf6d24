//! Parses `tidings.toml` into a [`Config`].

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use tidings_model::{
    inbox::InboxLimits,
    names,
    settings::{DigestCap, FormerNames, OverLimit, Settings},
    words,
};
use toml::Spanned;

use super::{
    Config,
    checks::{Checks, OverridableKey, whole},
    digest,
    directory::{self, RawDirectory},
    former,
    gateway::RawGateway,
    keys::{RawNumber, RawText, ToConfigValue as _, table},
    problem::ConfigProblem,
    relay::{self, RawRelay},
    retention::RawRetention,
    secret::{self, database_url},
    sections,
    stream::{self, MergedStream, RawMail, RawStreams, StreamTable, StreamsConfig},
    subscribe::{self, RawSubscribe},
    temporal::TemporalConfig,
    tenant::{self, GeneralTables, RawDigests, RawTenant},
};
use crate::registration;

const MEBIBYTE: u64 = 1 << 20;

const DATABASE: OverridableKey =
    OverridableKey { key: "database_url", variable: "TIDINGS_DATABASE_URL", default: "sqlite://.tidings/tidings.db" };

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    database_url: RawText,
    smtp_url: RawText,
    templates: RawText,
    task_queue: RawText,
    metrics_listen: RawText,
    metrics_tls: RawText,
    cached_workflows: RawNumber,
    link_keys_file: RawText,
    mail: RawMail,
    relay: BTreeMap<String, Spanned<RawRelay>>,
    stream: RawStreams,
    gateway: RawGateway,
    inbox: RawInbox,
    subscribe: Vec<Spanned<RawSubscribe>>,
    recipients: RawRecipients,
    directory: Option<Spanned<RawDirectory>>,
    retention: RawRetention,
    digest: RawDigests,
    tenant: BTreeMap<String, Spanned<RawTenant>>,
}

#[derive(Clone, Copy, Debug)]
pub struct RecipientLimits {
    pub cap: Option<DigestCap>,
    pub on_cap: OverLimit,
    /// Suppress an address after this many consecutive soft bounces.
    pub soft_bounces: u32,
}

table! {
    /// The keys of `[recipients]`.
    struct RawRecipients for recipients: RecipientLimits, read() {
        cap: text(parse_cap);
        on_cap: text(digest::over_limit), shown recipients.cap.and_then(|_| recipients.on_cap.name().show());
        soft_bounces: number(whole(u32::MAX));
    }
}

table! {
    /// The keys of `[inbox]`, the limits of the gateway's inbox.
    struct RawInbox for limits: InboxLimits, read() {
        keep: text(words::parse_duration);
        max_age: text(words::parse_duration) in age;
        max_mebibytes: number(|text| whole(u32::MAX)(text).map(|count| u64::from(count) * MEBIBYTE)) in bytes;
    }
}

impl RawConfig {
    pub fn into_config(
        self,
        checks: &mut Checks<'_>,
        temporal: Result<TemporalConfig, ConfigProblem>,
    ) -> Option<Config> {
        let database_url = checks.secret_url(DATABASE, self.database_url.as_ref(), database_url);
        let relays = self.relay_configs(checks);
        let templates = checks.text("templates", self.templates.as_ref(), parse_folder);
        let task_queue = checks.text("task_queue", self.task_queue.as_ref(), task_queue);
        let metrics = ("metrics_listen", self.metrics_listen.as_ref());
        let metrics_listen = checks.listener(metrics, ("metrics_tls", self.metrics_tls.as_ref()), false);
        let cached_workflows =
            checks.number("cached_workflows", self.cached_workflows.as_ref(), whole(registration::CACHED));
        let mail = StreamTable::for_mail("", &self.mail);
        let sender = MergedStream::new([mail.clone()], checks).sender(checks);
        let streams = self.stream.stream_tables("").map(|stream| MergedStream::new([stream, mail.clone()], checks));
        let streams = StreamsConfig::check(streams, &self.relay, checks);
        let digests =
            self.digest.iter().map(|(name, raw)| (name.clone(), digest::check_digest(name, raw, checks))).collect();
        let general = GeneralTables { digests: &self.digest, mail, streams: &self.stream, relays: &self.relay };
        let tenants = tenant::check_tenants(&self.tenant, &general, checks);
        if let (Some(streams), Some(tenants)) = (&streams, &tenants) {
            let all: Vec<_> = [streams].into_iter().chain(tenants.values().map(|tenant| &tenant.streams)).collect();
            stream::check_relays(&all, &self.relay, self.smtp_url.as_ref(), checks);
        }
        let names = self.former_names(checks);
        let (cap, on_cap, soft_bounces) = (None, OverLimit::default(), Settings::SOFT_BOUNCES);
        let mut recipients = RecipientLimits { cap, on_cap, soft_bounces };
        self.recipients.read("recipients", &mut recipients, checks);
        let directory = self.directory.as_ref().and_then(|raw| directory::check_directory(raw, checks));
        let mut inbox = InboxLimits::default();
        self.inbox.read("inbox", &mut inbox, checks);
        let tenants_digests = self.tenant.values().flat_map(|tenant| tenant.as_ref().digest.values());
        let adapts = self.digest.values().chain(tenants_digests).any(|digest| digest.as_ref().is_adaptive());
        let retention = self.retention.check(inbox.keep, adapts, checks);
        let gateway = self.gateway.check(checks);
        if gateway.pages.public_url.is_none() {
            digest::report_uncounted("digest.", &self.digest, checks);
            for (name, tenant) in &self.tenant {
                digest::report_uncounted(&format!("tenant.{name}.digest."), &tenant.as_ref().digest, checks);
            }
        }
        let subscriptions = subscribe::check_subscriptions(&self.subscribe, checks);
        let temporal = checks.accept(temporal);
        let link_keys = secret::link_keys(self.link_keys_file.as_ref(), checks);
        let (sender, dkim) = sender?;
        Some(Config {
            database_url: database_url?,
            relays: relays?,
            streams: streams?,
            templates,
            task_queue: task_queue.unwrap_or_else(|| names::TASK_QUEUE.to_owned()),
            metrics_listen,
            cached_workflows,
            sender,
            dkim,
            digests,
            tenants: tenants?,
            names: names?,
            recipients,
            directory,
            retention,
            gateway,
            inbox,
            subscriptions: subscriptions?,
            link_keys: link_keys?,
            temporal: temporal?,
            sections: sections::fingerprints(checks.content()),
            listeners: std::mem::take(&mut checks.listeners),
            exposed_password: checks.exposed_password(),
        })
    }

    fn former_names(&self, checks: &mut Checks<'_>) -> Option<FormerNames> {
        let digests = former::check_former("digest", former::with_former(&self.digest, |raw| &raw.was), checks);
        let tenants = former::check_former("tenant", former::with_former(&self.tenant, |raw| &raw.was), checks);
        Some(FormerNames { digests: digests?, tenants: tenants? })
    }

    fn relay_configs(&self, checks: &mut Checks<'_>) -> Option<BTreeMap<String, relay::RelayConfig>> {
        let smtp_url = self.smtp_url.as_ref();
        let named = self.relay.iter();
        let mut named: Vec<_> =
            named.map(|(name, raw)| Some((name.clone(), relay::check_relay(name, raw, smtp_url, checks)?))).collect();
        let former = former::check_former("relay", former::with_former(&self.relay, |raw| &raw.was), checks);
        if !self.relay.contains_key(relay::DEFAULT) {
            named.push(relay::default_relay(smtp_url, checks).map(|relay| (relay::DEFAULT.to_owned(), relay)));
        }
        former.and_then(|_| named.into_iter().collect())
    }
}

fn parse_folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        Ok(path)
    } else {
        Err("there is no such folder; leave the key out to use the embedded templates".into())
    }
}

fn parse_cap(text: &str) -> Result<DigestCap, String> {
    let wrong = || "is not a cap; write for example \"5 in 1d\"".to_owned();
    let [most, "in", within] = text.split_ascii_whitespace().collect::<Vec<_>>()[..] else { return Err(wrong()) };
    let most = most.parse().ok().filter(|most| *most > 0).ok_or_else(wrong)?;
    Ok(DigestCap { most, within: words::parse_duration(within)? })
}

fn task_queue(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err(format!("is empty; write for example {:?}", names::TASK_QUEUE))
    } else {
        Ok(text.to_owned())
    }
}
