//! Streams, as `[stream.bulk]` and `[stream.transactional]` describe them. Their defaults are the relay of `smtp_url` and
//! the sender of `[mail]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::{
    link_keys::{LinkKeys, VARIABLE},
    settings::{Guarantee, ReturnPath, Sender, Stream as Settings},
    words,
};
use toml::Spanned;

use super::{
    dkim::{self, DkimConfig},
    list::{SpannedList, parse_each},
    mail,
    problem::{Checks, Problem},
    relay,
    suggest::did_you_mean,
};

/// The tables `[stream.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStreams {
    #[serde(default)]
    bulk: RawStream,
    #[serde(default)]
    transactional: RawStream,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStream {
    relays: Option<SpannedList>,
    retry_delays: Option<SpannedList>,
    guarantee: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    reply_to: Option<Spanned<String>>,
    domain: Option<Spanned<String>>,
    dkim: Option<dkim::RawDkim>,
    return_path: Option<Spanned<String>>,
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
    unsigned_return_path: Option<Problem>,
}

impl Stream {
    /// Returns the problem of a return path whose tokens no key can sign.
    pub(super) fn return_path_problem(&self, keys: Option<&LinkKeys>) -> Option<Problem> {
        self.unsigned_return_path.clone().filter(|_| keys.is_none())
    }
}

/// The general settings that streams inherit.
pub(super) struct Defaults<'a> {
    pub mail: &'a mail::RawMail,
    pub sender: &'a Sender,
    pub dkim: Option<&'a DkimConfig>,
    pub relays: &'a BTreeMap<String, Spanned<relay::RawRelay>>,
    pub smtp_url: Option<&'a Spanned<String>>,
}

impl RawStreams {
    pub fn check(&self, defaults: &Defaults<'_>, checks: &mut Checks<'_>) -> Option<Streams> {
        let bulk = self.bulk.check("stream.bulk", dkim::BULK, defaults, checks);
        let transactional = self.transactional.check("stream.transactional", dkim::TRANSACTIONAL, defaults, checks);
        let streams = Streams { bulk: bulk?, transactional: transactional? };
        streams.check_relays(defaults, checks);
        Some(streams)
    }
}

impl Streams {
    /// Warns of streams that share a relay and a sender domain (rule 29). The default sender, for a trial, needs no warning.
    pub(super) fn warning(&self) -> Option<Problem> {
        let [bulk, transactional] = [&self.bulk.settings, &self.transactional.settings];
        let relay = bulk.relays.iter().find(|name| transactional.relays.contains(name))?;
        let domain = |stream: &Settings| Some(stream.sender.address.rsplit_once('@')?.1.to_ascii_lowercase());
        let shared = domain(bulk)?;
        if Some(&shared) != domain(transactional).as_ref() || bulk.sender.address == mail::ADDRESS {
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

    /// Reports relays without a stream, and rates that two streams share (rule 29).
    fn check_relays(&self, defaults: &Defaults<'_>, checks: &mut Checks<'_>) {
        let by = |stream: &Stream, name: &str| stream.settings.relays.iter().any(|relay| relay == name);
        let users = |name: &str| (by(&self.bulk, name), by(&self.transactional, name));
        let unused =
            |name: &str| format!("no stream uses this relay; add {name:?} to stream.bulk.relays, or remove the relay");
        for (name, raw) in defaults.relays {
            let header = Spanned::new(raw.span(), String::new());
            match (users(name), &raw.as_ref().rate) {
                ((false, false), _) => {
                    checks.value(&format!("relay.{name}"), Some(&header), |_| Err::<(), _>(unused(name)));
                }
                ((true, true), Some(rate)) => {
                    let fault =
                        "limits one stream, but both streams use this relay; write two relays, each with its share";
                    checks.value(&format!("relay.{name}.rate"), Some(rate), |_| Err::<(), _>(fault.to_owned()));
                }
                _ => {}
            }
        }
        if let (Some(url), (false, false)) = (defaults.smtp_url, users(relay::DEFAULT)) {
            checks.secret("smtp_url", url, |_| Err::<(), _>(unused(relay::DEFAULT)));
        }
    }
}

impl RawStream {
    fn check(
        &self,
        table: &str,
        dkim: dkim::DkimTable,
        defaults: &Defaults<'_>,
        checks: &mut Checks<'_>,
    ) -> Option<Stream> {
        let key = |name: &str| format!("{table}.{name}");
        let named = self.relays.as_ref().map(|relays| self::relays(&key("relays"), relays, defaults.relays, checks));
        let delay = |text: &str| words::duration(text);
        let delays = self.retry_delays.as_ref().map(|delays| parse_each(&key("retry_delays"), delays, checks, delay));
        let guarantee = checks.value(&key("guarantee"), self.guarantee.as_ref(), guarantee);
        let sender = self.sender(table, defaults.sender, checks)?;
        let dkim = self.dkim(dkim, &sender, defaults, checks);
        let return_path = checks.value(&key("return_path"), self.return_path.as_ref(), return_path);
        let unsigned_return_path = self.return_path.as_ref().map(|raw| Problem {
            place: checks.place_of(raw),
            key: key("return_path"),
            value: raw.as_ref().clone(),
            problem: format!("needs a key that signs its tokens; set {VARIABLE} to what `tidings keys new` prints"),
        });
        let usual = Settings::new(&[relay::DEFAULT], sender);
        let settings = Settings {
            relays: named.unwrap_or(Some(usual.relays))?,
            retry_delays: delays.unwrap_or(Some(usual.retry_delays))?,
            guarantee: guarantee.unwrap_or(usual.guarantee),
            return_path,
            ..Settings::new(&[], usual.sender)
        };
        Some(Stream { settings, dkim, unsigned_return_path })
    }

    /// Checks the sender. An address of the stream's own brings a domain of its own.
    fn sender(&self, table: &str, defaults: &Sender, checks: &mut Checks<'_>) -> Option<Sender> {
        let (name, address) = match &self.from {
            Some(_) => checks.value(&format!("{table}.from"), self.from.as_ref(), mail::from)?,
            None => (defaults.name.clone(), defaults.address.clone()),
        };
        let reply_to = checks.value(&format!("{table}.reply_to"), self.reply_to.as_ref(), tidings_mail::address);
        let domain = match (&self.domain, &self.from) {
            (Some(_), _) => checks.value(&format!("{table}.domain"), self.domain.as_ref(), mail::host)?,
            (None, Some(_)) => address.rsplit_once('@').map(|(_, domain)| domain.to_owned())?,
            (None, None) => defaults.domain.clone(),
        };
        Some(Sender { name, address, reply_to: reply_to.or_else(|| defaults.reply_to.clone()), domain })
    }

    /// Checks the signature. The key of `[mail.dkim]` also signs for a stream with an address of its own.
    fn dkim(
        &self,
        table: dkim::DkimTable,
        sender: &Sender,
        defaults: &Defaults<'_>,
        checks: &mut Checks<'_>,
    ) -> Option<DkimConfig> {
        if self.dkim.is_some() || checks.variable(table.variable).is_some() {
            return dkim::check(table, self.dkim.as_ref(), sender, checks);
        }
        match &self.from {
            Some(_) => dkim::check(table.inherited(), defaults.mail.dkim.as_ref(), sender, checks),
            None => defaults.dkim.cloned(),
        }
    }
}

/// Checks the names of the relays. Each must exist.
fn relays(
    key: &str,
    raw: &SpannedList,
    known: &BTreeMap<String, Spanned<relay::RawRelay>>,
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

fn guarantee(text: &str) -> Result<Guarantee, String> {
    let right = "write \"at_least_once\" to send again after an unknown outcome, or \"at_most_once\"";
    Guarantee::named(text).ok_or_else(|| format!("is not a guarantee; {right}"))
}

/// Parses an address for returned messages. The token must fit before the `@`.
fn return_path(text: &str) -> Result<ReturnPath, String> {
    let address = tidings_mail::address(text)?;
    let wrong = || {
        let most = ReturnPath::LOCAL_BYTES;
        format!(
            "needs 1 to {most} lower-case letters, digits, '.', '_' or '-' before the @, and a host name in ASCII; write for \
             example \"bounce@mail.acme.example\""
        )
    };
    let (local, domain) = address.rsplit_once('@').ok_or_else(wrong)?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    if local.len() > ReturnPath::LOCAL_BYTES || !local.chars().all(fits) {
        return Err(wrong());
    }
    let domain = mail::host(domain).map_err(|_| wrong())?;
    Ok(ReturnPath { local: local.to_owned(), domain })
}
