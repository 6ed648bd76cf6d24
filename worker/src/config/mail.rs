//! The sender, as `[mail]` and `[tenant.NAME.mail]` name it.

use lettre::message::Mailbox;
use serde::Deserialize;
use tidings_model::{
    AddressError, EmailAddress,
    settings::{RelaySettings, Sender},
};
use toml::Spanned;

use super::{dkim, problem::Problem};

/// The default sender, which is only good for trying Tidings.
pub(super) const NAME: &str = "Tidings";
pub(super) const ADDRESS: &str = "digest@localhost";

/// The keys of `[mail]` and `[tenant.NAME.mail]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMail {
    pub from: Option<Spanned<String>>,
    pub reply_to: Option<Spanned<String>>,
    pub domain: Option<Spanned<String>>,
    pub dkim: Option<dkim::RawDkim>,
}

/// Refuses the default sender for a relay on another machine. Replies would go nowhere, and relays refuse such messages
/// or treat them as spam.
pub(super) fn default_sender_problem(sender: &Sender, RelaySettings { relay, .. }: &RelaySettings) -> Option<Problem> {
    let unusable = sender.address.as_str() == ADDRESS && !relay.is_loopback();
    unusable.then(|| Problem {
        place: "default".to_owned(),
        key: "mail.from".to_owned(),
        value: format!("{NAME} <{ADDRESS}>"),
        problem: format!(
            "is not a real address, and messages go to {relay}; set it, for example to \"Acme <digest@acme.example>\""
        ),
    })
}

/// Parses a name and an address.
///
/// # Errors
/// The text is not a sender.
pub(super) fn from(text: &str) -> Result<(String, EmailAddress), String> {
    let wrong = "is not a sender; write for example \"Acme <digest@acme.example>\"";
    let (name, address) = match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some(parts) => parts,
        None => ("", text.trim()),
    };
    let address = address.trim().parse::<EmailAddress>().map_err(|error| match error {
        AddressError::NotAddress => wrong.to_owned(),
        error => format!("is not a sender: its address {error}"),
    })?;
    // lettre reads the name, which may be quoted, but not every address.
    let Mailbox { name, .. } = format!("{name}<{ADDRESS}>").parse().map_err(|_| wrong.to_owned())?;
    Ok((name.unwrap_or_default(), address))
}

/// Parses an address alone.
///
/// # Errors
/// The text is not an address.
pub(super) fn address(text: &str) -> Result<EmailAddress, String> {
    text.parse().map_err(|error: AddressError| error.to_string())
}

/// Parses the name of a host.
///
/// # Errors
/// The text is not a host name.
pub(super) fn host(text: &str) -> Result<String, String> {
    match url::Host::parse(text) {
        Ok(url::Host::Domain(host)) if host == text => Ok(host),
        _ => Err("is not a host name; write for example \"mail.acme.example\"".to_owned()),
    }
}
