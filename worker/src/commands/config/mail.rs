//! The sender and its signature, as `tidings.toml` would say them.

use std::path::Path;

use serde::Serialize;
use tidings_mail::dkim::Dkim;
use tidings_model::{EmailAddress, settings::Sender};

use crate::config::DkimConfig;

#[derive(Serialize)]
pub(super) struct MailView<'a> {
    from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<&'a str>,
    domain: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dkim: Option<DkimView<'a>>,
}

#[derive(Serialize)]
pub(super) struct DkimView<'a> {
    selector: &'a str,
    domain: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_file: Option<&'a Path>,
    algorithm: &'static str,
    dns: Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    second: Option<Box<DkimView<'a>>>,
}

/// The DNS record with which receivers verify the signature.
#[derive(Serialize)]
struct Record {
    name: String,
    r#type: &'static str,
    value: String,
}

impl<'a> MailView<'a> {
    pub fn new(sender: &'a Sender, dkim: Option<DkimView<'a>>) -> Self {
        Self {
            from: from(sender),
            reply_to: sender.reply_to.as_ref().map(EmailAddress::as_str),
            domain: &sender.domain,
            dkim,
        }
    }
}

pub(super) fn from(Sender { name, address, .. }: &Sender) -> String {
    if name.is_empty() { address.to_string() } else { format!("{name} <{address}>") }
}

impl<'a> DkimView<'a> {
    pub fn new(signing: &'a DkimConfig, dkim: &Dkim) -> Self {
        Self {
            selector: &signing.selector,
            domain: &signing.domain,
            key_file: signing.key_file(),
            algorithm: dkim.algorithm(),
            dns: Record { name: dkim.record_name(), r#type: "TXT", value: dkim.record() },
            second: signing.second().zip(dkim.second()).map(|(signing, dkim)| Box::new(Self::new(signing, dkim))),
        }
    }
}
