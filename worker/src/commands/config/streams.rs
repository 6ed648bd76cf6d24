//! Relays and streams, as `tidings.toml` would say them.

use std::collections::BTreeMap;

use serde::Serialize;
use tidings_model::{
    EmailAddress,
    relay_url::TokenSource,
    settings::{RelaySettings, Sender},
    words,
};

use super::mail::{DkimView, from};
use crate::{
    Config,
    config::{DkimConfig, Problem, Relay, Stream, Streams},
};

#[derive(Serialize)]
pub(super) struct RelayView<'a> {
    url: String,
    /// The source of the access token. Arguments of a command may be secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    provider: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    per_connection: u32,
    connections: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_timeout: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    reports_for: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    was: &'a [String],
}

/// Those by which mail goes; without those whose address is missing here.
pub(super) fn relays<'a>(config: &'a Config) -> BTreeMap<&'a str, RelayView<'a>> {
    let shown =
        |(name, relay): (&'a String, &'a Relay)| Some((name.as_str(), RelayView::new(relay.settings().ok()?, relay)));
    config.named_relays().filter_map(shown).collect()
}

impl<'a> RelayView<'a> {
    fn new(settings: RelaySettings, named: &'a Relay) -> Self {
        let RelaySettings { relay, provider, rate, per_connection, connections, pool, reply_timeout } = settings;
        let rate = rate.map(|rate| rate.to_string());
        let reply_timeout = reply_timeout.map(words::written);
        let token = relay.token().map(|source| match source {
            TokenSource::File(path) => format!("file {}", path.display()),
            TokenSource::Command(words) => format!("command {}", words.first().map_or("", String::as_str)),
        });
        Self {
            url: relay.to_string(),
            token,
            provider: provider.name(),
            rate,
            per_connection,
            connections,
            pool,
            reply_timeout,
            reports_for: named.reports_for(),
            was: named.was(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct StreamsView<'a> {
    bulk: StreamView<'a>,
    transactional: StreamView<'a>,
}

/// All that is in force for a stream; its sender and signature only where they differ from `[mail]`'s.
#[derive(Serialize)]
struct StreamView<'a> {
    relays: &'a [String],
    retry_delays: Vec<String>,
    guarantee: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dkim: Option<DkimView<'a>>,
}

/// The streams of everybody or of a tenant, and which of their keys do not serve.
pub(super) fn streams<'a>(streams: &'a Streams, config: &'a Config) -> (StreamsView<'a>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut shown = |stream| StreamView::new(stream, config, &mut problems);
    let streams = StreamsView { bulk: shown(&streams.bulk), transactional: shown(&streams.transactional) };
    (streams, problems)
}

/// Returns a stream's own signature, if it differs from `[mail.dkim]`.
pub(super) fn own_dkim<'a>(config: &'a Config, stream: &'a Stream) -> Option<&'a DkimConfig> {
    stream.dkim.as_ref().filter(|own| config.dkim.as_ref() != Some(*own))
}

impl<'a> StreamView<'a> {
    fn new(stream: &'a Stream, config: &'a Config, problems: &mut Vec<Problem>) -> Self {
        let settings = &stream.settings;
        let (own, usual): (&Sender, &Sender) = (&settings.sender, &config.sender);
        let differs = |same: bool| (!same).then_some(());
        let dkim = own_dkim(config, stream).and_then(|signing| match signing.signer() {
            Ok(dkim) => Some(DkimView::new(signing, &dkim)),
            Err(problem) => {
                problems.push(problem);
                None
            }
        });
        Self {
            relays: &settings.relays,
            retry_delays: settings.retry_delays.iter().map(|wait| words::written(*wait)).collect(),
            guarantee: settings.guarantee.name(),
            from: differs((&own.name, &own.address) == (&usual.name, &usual.address)).map(|()| from(own)),
            reply_to: own
                .reply_to
                .as_ref()
                .filter(|reply_to| usual.reply_to.as_ref() != Some(*reply_to))
                .map(EmailAddress::as_str),
            domain: differs(own.domain == usual.domain).map(|()| own.domain.as_str()),
            return_path: settings.return_path.as_ref().map(ToString::to_string),
            dkim,
        }
    }
}
