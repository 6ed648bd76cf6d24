//! The content of a message that came back, and the fields of its machine-readable parts.

use jiff::Timestamp;
use mail_parser::{ContentType, DateTime, Message, MimeHeaders as _};
use tidings_model::{
    delivery_events::{Kind, Status},
    link_keys::Token,
};
use uuid::Uuid;

/// The content of a returned message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// The tokens in the address that it came to, and then those in the message that it returns. None is verified.
    pub tokens: Vec<Token>,
    /// `X-Tidings-Message` of the message that it returns.
    pub message: Option<Uuid>,
    /// `Message-ID` of the message that it returns, without angle brackets.
    pub message_id: Option<String>,
    pub content: Content,
}

/// The kind of a returned message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Reports about a message.
    Reports(Vec<ParsedReport>),
    /// A report without consequences: a virus, a message that is not spam, or one that another server took over.
    NoNews,
    /// An automatic reply (RFC 3834): out of the office, or a challenge.
    AutoReply,
    /// Anything else.
    #[default]
    Unrecognized,
}

/// One report. It may contain an address: not for logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedReport {
    /// A bounce is hard only if the evidence says that the address does not exist.
    pub kind: Kind,
    /// What the quoted reply and the label prove together.
    pub status: Option<Status>,
    /// The reply of the recipient's server, in its own words.
    pub diagnostic: String,
    /// The address that the report is about, if it names one: that of a member where the message went to a group.
    pub recipient: Option<String>,
    /// The time of the report, if the message has one.
    pub occurred_at: Option<Timestamp>,
}

/// One group of fields of a machine-readable part: `Name: value`, with an empty line between two groups (RFC 3464 2.1).
pub(super) struct Fields<'a>(Vec<(&'a str, String)>);

impl Fields<'_> {
    /// The trimmed value of the first field with this name, in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The value of a field `type; value`, without its type.
    pub fn typed(&self, name: &str) -> Option<&str> {
        let value = self.get(name)?;
        Some(value.split_once(';').map_or(value, |(_, value)| value.trim()))
    }

    /// The time that a field names.
    pub fn time(&self, name: &str) -> Option<Timestamp> {
        timestamp(&DateTime::parse_rfc822(self.get(name)?)?)
    }
}

/// Splits a part into its groups.
pub(super) fn groups(text: &str) -> Vec<Fields<'_>> {
    let mut groups = vec![Fields(Vec::new())];
    for line in text.lines() {
        let Some(Fields(group)) = groups.last_mut() else { break };
        if line.trim().is_empty() {
            if !group.is_empty() {
                groups.push(Fields(Vec::new()));
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = group.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            group.push((name.trim_end(), value.trim().to_owned()));
        }
    }
    groups.retain(|Fields(group)| !group.is_empty());
    groups
}

/// The content of the first part with this subtype of `message`.
pub(super) fn part(message: &Message<'_>, subtype: &str) -> Option<String> {
    let part = message.parts.iter().find(|part| is_type(part.content_type(), subtype))?;
    Some(String::from_utf8_lossy(part.contents()).into_owned())
}

pub(super) fn is_type(content_type: Option<&ContentType<'_>>, subtype: &str) -> bool {
    content_type.and_then(ContentType::subtype).is_some_and(|own| own.eq_ignore_ascii_case(subtype))
}

pub(super) fn timestamp(date: &DateTime) -> Option<Timestamp> {
    if !date.is_valid() {
        return None;
    }
    Timestamp::from_second(date.to_timestamp()).ok()
}
