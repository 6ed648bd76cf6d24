//! The streams, as `[stream.bulk]` and `[stream.transactional]` of `tidings.toml` say them. What they do not say is
//! everybody's: the relay of `smtp_url`, and the sender of `[mail]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidings_model::{
    settings::{Guarantee, Sender, Stream as Settings},
    words,
};
use toml::Spanned;

use super::{
    Signing,
    digest::{Words, each},
    dkim,
    file::nearest,
    mail,
    problem::{Checks, Problem},
    relay,
};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(default)]
    bulk: Keys,
    #[serde(default)]
    transactional: Keys,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    relays: Option<Words>,
    retry_delays: Option<Words>,
    guarantee: Option<Spanned<String>>,
    from: Option<Spanned<String>>,
    reply_to: Option<Spanned<String>>,
    domain: Option<Spanned<String>>,
    dkim: Option<dkim::Written>,
}

/// Both streams.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Digests.
    pub bulk: Stream,
    /// Single messages.
    pub transactional: Stream,
}

/// A stream whose key is not read yet.
#[derive(Clone, Debug)]
pub struct Stream {
    /// All but the signature.
    pub settings: Settings,
    /// Who signs its mail, unless the relay does.
    pub dkim: Option<Signing>,
}

impl Stream {
    /// What whoever sends needs.
    ///
    /// # Errors
    /// The DKIM key cannot be read, or signs nothing.
    pub fn signed(&self) -> Result<Settings, Problem> {
        let dkim = self.dkim.as_ref().map(Signing::key).transpose()?;
        Ok(Settings { dkim, ..self.settings.clone() })
    }
}

/// What streams take over.
pub(super) struct Everybodys<'a> {
    pub mail: &'a mail::Written,
    pub sender: &'a Sender,
    pub dkim: Option<&'a Signing>,
    pub relays: &'a BTreeMap<String, Spanned<relay::Written>>,
    pub smtp_url: Option<&'a Spanned<String>>,
}

impl Written {
    pub fn check(&self, everybodys: &Everybodys<'_>, checks: &mut Checks<'_>) -> Option<Streams> {
        let bulk = self.bulk.check("stream.bulk", dkim::BULK, everybodys, checks);
        let transactional = self.transactional.check("stream.transactional", dkim::TRANSACTIONAL, everybodys, checks);
        let streams = Streams { bulk: bulk?, transactional: transactional? };
        streams.check_relays(everybodys, checks);
        Some(streams)
    }
}

impl Streams {
    /// A relay that nobody names is a slip, and a rate is of one stream (rule 29).
    fn check_relays(&self, everybodys: &Everybodys<'_>, checks: &mut Checks<'_>) {
        let by = |stream: &Stream, name: &str| stream.settings.relays.iter().any(|relay| relay == name);
        let users = |name: &str| (by(&self.bulk, name), by(&self.transactional, name));
        let unused = |name: &str| format!("no stream sends by it; add {name:?} to stream.bulk.relays, or leave it out");
        for (name, written) in everybodys.relays {
            let header = Spanned::new(written.span(), String::new());
            match (users(name), &written.as_ref().rate) {
                ((false, false), _) => {
                    checks.value(&format!("relay.{name}"), Some(&header), |_| Err::<(), _>(unused(name)));
                }
                ((true, true), Some(rate)) => {
                    let said = "is of one stream, and both send by it; make two relays of it, each with its share";
                    checks.value(&format!("relay.{name}.rate"), Some(rate), |_| Err::<(), _>(said.to_owned()));
                }
                _ => {}
            }
        }
        if let (Some(url), (false, false)) = (everybodys.smtp_url, users(relay::DEFAULT)) {
            checks.secret("smtp_url", url, |_| Err::<(), _>(unused(relay::DEFAULT)));
        }
    }
}

impl Keys {
    fn check(
        &self,
        table: &str,
        place: dkim::Place,
        everybodys: &Everybodys<'_>,
        checks: &mut Checks<'_>,
    ) -> Option<Stream> {
        let key = |name: &str| format!("{table}.{name}");
        let named = self.relays.as_ref().map(|relays| self::relays(&key("relays"), relays, everybodys.relays, checks));
        let delay = |text: &str| words::duration(text);
        let delays = self.retry_delays.as_ref().map(|delays| each(&key("retry_delays"), delays, checks, delay));
        let guarantee = checks.value(&key("guarantee"), self.guarantee.as_ref(), guarantee);
        let sender = self.sender(table, everybodys.sender, checks)?;
        let dkim = self.signing(place, &sender, everybodys, checks);
        let usual = Settings::new(&[relay::DEFAULT], sender);
        let settings = Settings {
            relays: named.unwrap_or(Some(usual.relays))?,
            retry_delays: delays.unwrap_or(Some(usual.retry_delays))?,
            guarantee: guarantee.unwrap_or(usual.guarantee),
            ..Settings::new(&[], usual.sender)
        };
        Some(Stream { settings, dkim })
    }

    /// A stream with an address of its own has a domain of its own.
    fn sender(&self, table: &str, everybodys: &Sender, checks: &mut Checks<'_>) -> Option<Sender> {
        let (name, address) = match &self.from {
            Some(_) => checks.value(&format!("{table}.from"), self.from.as_ref(), mail::from)?,
            None => (everybodys.name.clone(), everybodys.address.clone()),
        };
        let reply_to = checks.value(&format!("{table}.reply_to"), self.reply_to.as_ref(), super::address);
        let domain = match (&self.domain, &self.from) {
            (Some(_), _) => checks.value(&format!("{table}.domain"), self.domain.as_ref(), mail::host)?,
            (None, Some(_)) => address.rsplit_once('@').map(|(_, domain)| domain.to_owned())?,
            (None, None) => everybodys.domain.clone(),
        };
        Some(Sender { name, address, reply_to: reply_to.or_else(|| everybodys.reply_to.clone()), domain })
    }

    /// The key of `[mail.dkim]` signs for a stream, too, in the name of that stream's own address.
    fn signing(
        &self,
        place: dkim::Place,
        sender: &Sender,
        everybodys: &Everybodys<'_>,
        checks: &mut Checks<'_>,
    ) -> Option<Signing> {
        if self.dkim.is_some() || checks.variable(place.variable).is_some() {
            return dkim::check(place, self.dkim.as_ref(), sender, checks);
        }
        match &self.from {
            Some(_) => dkim::check(place.taken_over(), everybodys.mail.dkim.as_ref(), sender, checks),
            None => everybodys.dkim.cloned(),
        }
    }
}

/// The relays, each of which must exist.
fn relays(
    key: &str,
    written: &Words,
    known: &BTreeMap<String, Spanned<relay::Written>>,
    checks: &mut Checks<'_>,
) -> Option<Vec<String>> {
    let named = each(key, written, checks, |name| {
        if name == relay::DEFAULT || known.contains_key(name) {
            return Ok(name.to_owned());
        }
        let meant = nearest(name, known.keys().map(String::as_str));
        let meant = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        Err(format!("there is no [relay.{name}]{meant}"))
    })?;
    let all = Spanned::new(written.span(), named.join(", "));
    checks.value(key, Some(&all), |text| match text {
        "" => Err(format!("names no relay; leave it out for {:?}, the one of smtp_url", relay::DEFAULT)),
        _ => Ok(named),
    })
}

fn guarantee(text: &str) -> Result<Guarantee, String> {
    let known = [Guarantee::AtLeastOnce, Guarantee::AtMostOnce];
    let right = "write \"at_least_once\", and a mail of which nobody knows is sent again, or \"at_most_once\"";
    known.into_iter().find(|known| known.name() == text).ok_or_else(|| format!("is no guarantee; {right}"))
}
