//! Who the mail is from, as `tidings.toml` says it.

use lettre::{Address, message::Mailbox};
use serde::Deserialize;
use tidings_model::settings::{RelaySettings, Sender};
use toml::Spanned;

use super::{
    dkim,
    problem::{Checks, Problem},
};

/// The sender until somebody names one: good for trying Tidings, and for nothing else.
const NAME: &str = "Tidings";
const ADDRESS: &str = "digest@localhost";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    from: Option<Spanned<String>>,
    reply_to: Option<Spanned<String>>,
    domain: Option<Spanned<String>>,
    pub dkim: Option<dkim::Written>,
}

impl Written {
    pub fn check(&self, checks: &mut Checks<'_>) -> Option<Sender> {
        let (name, address) = match &self.from {
            Some(_) => checks.value("mail.from", self.from.as_ref(), from)?,
            None => (NAME.to_owned(), ADDRESS.to_owned()),
        };
        let reply_to = checks.value("mail.reply_to", self.reply_to.as_ref(), super::address);
        let domain = checks.value("mail.domain", self.domain.as_ref(), host);
        let domain = domain.or_else(|| address.rsplit_once('@').map(|(_, domain)| domain.to_owned()))?;
        Some(Sender { name, address, reply_to, domain })
    }
}

/// The default sender and a relay elsewhere: mail that nobody can answer, and that relays refuse or call spam.
pub(super) fn nobody(sender: &Sender, RelaySettings { relay, .. }: &RelaySettings) -> Option<Problem> {
    let is_nobody = sender.address == ADDRESS && !relay.is_loopback();
    is_nobody.then(|| Problem {
        place: "default".to_owned(),
        key: "mail.from".to_owned(),
        value: format!("{NAME} <{ADDRESS}>"),
        problem: format!("is nobody, and mail goes to {relay}; set it, for example to \"Acme <digest@acme.example>\""),
    })
}

/// Name and address, with its domain in ASCII (RFC 5891), as it stands on envelopes and in identifiers.
pub(super) fn from(text: &str) -> Result<(String, String), String> {
    let wrong = "is no sender; write for example \"Acme <digest@acme.example>\"";
    let Mailbox { name, email } = text.parse().map_err(|_| wrong.to_owned())?;
    let domain = match email.domain() {
        domain if domain.is_ascii() => domain.to_owned(),
        domain => url::Host::parse(domain).map_err(|_| wrong.to_owned())?.to_string(),
    };
    Ok((name.unwrap_or_default(), format!("{}@{domain}", email.user())))
}

/// A mail address (RFC 5321 addr-spec).
///
/// # Errors
/// Says what would be right.
pub fn address(text: &str) -> Result<String, String> {
    let address: Address =
        text.parse().map_err(|_| "is no address; write for example \"ann@acme.example\"".to_owned())?;
    Ok(address.to_string())
}

pub(super) fn host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(url::Host::Domain(host)) if host == text => Ok(host),
        _ => Err("is no host name; write for example \"mail.acme.example\"".to_owned()),
    }
}
