//! Streams, as `[stream.bulk]` and `[stream.transactional]` describe them, for everybody or for a tenant. Their defaults are the
//! relay of `smtp_url` and the sender of `[mail]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::{
    EmailAddress,
    link_keys::LinkKeys,
    settings::{self, Guarantee, ReturnPath, Stream as Settings},
};
use toml::Spanned;

use super::{
    dkim::{self, DkimConfig},
    layer::{Layer, Layers},
    list::{SpannedList, parse_each},
    mail,
    origin::Origins,
    problem::{Checks, Problem},
    relay,
    suggest::did_you_mean,
};

/// The environment variables with the streams' DKIM keys.
const BULK_KEY: &str = "TIDINGS_BULK_DKIM_KEY";
const TRANSACTIONAL_KEY: &str = "TIDINGS_TRANSACTIONAL_DKIM_KEY";

/// The tables `[stream.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStreams {
    #[serde(default)]
    bulk: RawStream,
    #[serde(default)]
    transactional: RawStream,
}

/// The keys of `[stream.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStream {
    pub relays: Option<SpannedList>,
    pub retry_delays: Option<SpannedList>,
    pub guarantee: Option<Spanned<String>>,
    pub from: Option<Spanned<String>>,
    pub reply_to: Option<Spanned<String>>,
    pub domain: Option<Spanned<String>>,
    pub dkim: Option<dkim::RawDkim>,
    pub return_path: Option<Spanned<String>>,
}

/// Both streams.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Digests.
    pub bulk: Stream,
    /// Single messages.
    pub transactional: Stream,
}

/// A stream whose DKIM key is not read yet.
#[derive(Clone, Debug)]
pub struct Stream {
    pub settings: Settings,
    /// The signature, unless the relay signs.
    pub dkim: Option<DkimConfig>,
    /// The problem of a return path without keys.
    pub(super) unsigned_return_path: Option<Problem>,
    /// The keys that its settings come from.
    pub origins: Origins,
}

impl Stream {
    /// Returns the problem of a return path whose tokens no key can sign.
    pub(super) fn return_path_problem(&self, keys: Option<&LinkKeys>) -> Option<Problem> {
        self.unsigned_return_path.clone().filter(|_| keys.is_none())
    }
}

/// The relays of the file.
pub(super) type KnownRelays = BTreeMap<String, Spanned<relay::RawRelay>>;

impl RawStreams {
    /// The tables of both streams, below `prefix`. The environment has keys only for those without a prefix.
    pub fn layers(&self, prefix: &str) -> [Layer<'_>; 2] {
        [("bulk", &self.bulk, BULK_KEY), ("transactional", &self.transactional, TRANSACTIONAL_KEY)].map(
            |(name, raw, variable)| {
                Layer::stream(&format!("{prefix}stream.{name}"), raw, prefix.is_empty().then_some(variable))
            },
        )
    }
}

impl Streams {
    /// Checks both streams by their tables.
    pub(super) fn check(
        bulk: Layers<'_>,
        transactional: Layers<'_>,
        known: &KnownRelays,
        checks: &mut Checks<'_>,
    ) -> Option<Self> {
        let (bulk, transactional) = (bulk.stream(known, checks), transactional.stream(known, checks));
        Some(Self { bulk: bulk?, transactional: transactional? })
    }

    /// Both streams.
    #[must_use]
    pub fn both(&self) -> [&Stream; 2] {
        [&self.bulk, &self.transactional]
    }

    /// The settings of both streams.
    #[must_use]
    pub fn settings(&self) -> settings::Streams {
        settings::Streams { bulk: self.bulk.settings.clone(), transactional: self.transactional.settings.clone() }
    }

    /// Warns of streams that share a relay and a sender domain (rule 29). The default sender, for a trial, needs no warning.
    pub(super) fn warning(&self) -> Option<Problem> {
        let [bulk, transactional] = [&self.bulk.settings, &self.transactional.settings];
        let relay = bulk.relays.iter().find(|name| transactional.relays.contains(name))?;
        let domain = |stream: &Settings| stream.sender.address.domain().to_ascii_lowercase();
        let shared = domain(bulk);
        if shared != domain(transactional) || bulk.sender.address.as_str() == mail::ADDRESS {
            return None;
        }
        let problem = format!(
            "digests and single messages share the relay {relay:?} and the sender domain {shared}, so that complaints about \
             digests harm single messages; add [relay.NAME] with a url, and [stream.transactional] with relays = [\"NAME\"] \
             and from = \"Acme <hello@mail.{shared}>\""
        );
        let (place, key, value) = ("streams".to_owned(), String::new(), String::new());
        Some(Problem { place, key, value, problem })
    }
}

/// Reports relays without a stream, and rates that two streams share (rule 29). `all` has the streams of everybody and of tenants.
pub(super) fn check_relays(
    all: &[&Streams],
    known: &KnownRelays,
    smtp_url: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) {
    let by = |stream: &Stream, name: &str| stream.settings.relays.iter().any(|relay| relay == name);
    let any = |name: &str, of: fn(&Streams) -> &Stream| all.iter().any(|streams| by(of(streams), name));
    let users = |name: &str| (any(name, |streams| &streams.bulk), any(name, |streams| &streams.transactional));
    let unused =
        |name: &str| format!("no stream uses this relay; add {name:?} to stream.bulk.relays, or remove the relay");
    for (name, raw) in known {
        let header = Spanned::new(raw.span(), String::new());
        match (users(name), &raw.as_ref().rate) {
            ((false, false), _) => {
                checks.value(&format!("relay.{name}"), Some(&header), |_| Err::<(), _>(unused(name)));
            }
            ((true, true), Some(rate)) => {
                let fault = "limits one stream, but both streams use this relay; write two relays, each with its share";
                checks.value(&format!("relay.{name}.rate"), Some(rate), |_| Err::<(), _>(fault.to_owned()));
            }
            _ => {}
        }
    }
    if let (Some(url), (false, false)) = (smtp_url, users(relay::DEFAULT)) {
        checks.secret("smtp_url", url, |_| Err::<(), _>(unused(relay::DEFAULT)));
    }
}

/// Checks the names of the relays. Each must exist.
pub(super) fn relays(
    key: &str,
    raw: &SpannedList,
    known: &KnownRelays,
    checks: &mut Checks<'_>,
) -> Option<Vec<String>> {
    let named = parse_each(key, raw, checks, |name| {
        if name == relay::DEFAULT || known.contains_key(name) {
            return Ok(name.to_owned());
        }
        let meant = did_you_mean(name, known.keys().map(String::as_str));
        Err(format!("there is no [relay.{name}]{meant}"))
    })?;
    let all = Spanned::new(raw.span(), named.join(", "));
    checks.value(key, Some(&all), |text| match text {
        "" => Err(format!("names no relay; leave the key out for {:?}, the relay of smtp_url", relay::DEFAULT)),
        _ => Ok(named),
    })
}

pub(super) fn guarantee(text: &str) -> Result<Guarantee, String> {
    let right = "write \"at_least_once\" to send again after an unknown outcome, or \"at_most_once\"";
    Guarantee::named(text).ok_or_else(|| format!("is not a guarantee; {right}"))
}

/// Parses an address for returned messages. The token must fit before the `@`.
pub(super) fn return_path(text: &str) -> Result<ReturnPath, String> {
    let address: EmailAddress = mail::address(text)?;
    let wrong = || {
        let most = ReturnPath::LOCAL_BYTES;
        format!(
            "needs 1 to {most} lower-case letters, digits, '.', '_' or '-' before the @, and a host name in ASCII; write for \
             example \"bounce@mail.acme.example\""
        )
    };
    let local = address.local_part();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if local.len() > ReturnPath::LOCAL_BYTES || !local.chars().all(fits) {
        return Err(wrong());
    }
    let domain = mail::host(address.domain()).map_err(|_| wrong())?;
    Ok(ReturnPath { local: local.to_owned(), domain })
}
