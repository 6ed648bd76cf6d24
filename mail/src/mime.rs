//! The bytes of a message (RFC 5322). They are composed once, and every attempt sends the same bytes.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::message::{
    Mailboxes, MultiPart, SinglePart,
    header::{self as fields, ContentTransferEncoding, ContentType, Headers, MIME_VERSION_1_0},
};
use uuid::Uuid;

use crate::Error;
use tidings_model::{
    EmailAddress,
    settings::{RecipientLinks, StreamName},
};

mod attachment;
mod body;
mod header;
mod own_message;
mod short_lines;
#[cfg(test)]
mod tests;

pub use self::{
    attachment::Attachment,
    body::Body,
    own_message::{Configured, OwnMessage},
};
use self::{
    header::{host, label, mailbox, one_line, opaque, raw},
    short_lines::short_lines,
};

/// Limits of a subject and of a display name, in characters. They bound the header lines.
const SUBJECT_CHARS: usize = 200;
const NAME_CHARS: usize = 80;

/// The header with a message's signed token. Complaints return it with the message, while a bounce comes to an address that
/// contains the token.
pub const TOKEN_HEADER: &str = "X-Tidings-Token";

/// A sender or recipient.
#[derive(Clone, Copy)]
pub struct Party<'a> {
    /// Display name; may be empty. Control characters do not get through.
    pub name: &'a str,
    pub address: &'a EmailAddress,
}

impl Party<'_> {
    fn mailboxes(self) -> Mailboxes {
        mailbox(one_line(self.name, NAME_CHARS), self.address).into()
    }
}

/// The place of a digest among the recipient's other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threading<'a> {
    /// In no thread, also beside digests with the same subject.
    Alone,
    /// The first message of a thread.
    First,
    /// Answers the first message of a thread, whose Message-ID this is, without angle brackets.
    Reply(&'a str),
}

/// The kind of a message. It decides the headers by which programs sort the message.
#[derive(Clone, Copy)]
pub enum MessageKind<'a> {
    /// A digest, which recipients filter and unsubscribe from by its list.
    Digest {
        tenant: &'a str,
        digest_type: &'a str,
        /// Events in the digest.
        events: u64,
        /// The right side of the List-Id: a host name of the sender.
        list_host: &'a str,
        threading: Threading<'a>,
    },
    /// A single message.
    Single { tenant: &'a str, stream: StreamName },
}

/// A digest or a single message before composition. The same draft always composes the same bytes.
#[derive(Clone, Copy)]
pub struct Draft<'a> {
    pub from: Party<'a>,
    pub to: Party<'a>,
    /// The address for replies. Default: `from`.
    pub reply_to: Option<&'a EmailAddress>,
    pub subject: &'a str,
    /// A message without HTML is plain text.
    pub html: Option<&'a str>,
    pub text: &'a str,
    /// The id of the message. The id of a digest's message is the digest's id.
    pub id: Uuid,
    pub of: MessageKind<'a>,
    /// The time of the first rendering.
    pub date: Timestamp,
    /// The right side of the Message-ID: a host name of the sender.
    pub message_domain: &'a str,
    /// The ways to unsubscribe, for a message of the stream bulk.
    pub unsubscribe: Option<Unsubscribe<'a>>,
    /// The signed token by which a report about the message is believed.
    pub token: Option<&'a str>,
    /// The files that come with the message.
    pub attachments: &'a [Attachment],
}

/// The ways to unsubscribe from a message, which mail programs offer (RFC 2369, RFC 8058).
#[derive(Clone, Copy)]
pub struct Unsubscribe<'a> {
    /// An address that takes a POST with one click.
    pub url: &'a str,
    /// A `mailto` URI, for programs that do not POST.
    pub mailto: Option<&'a str>,
}

/// A composed message.
#[derive(Clone, PartialEq, Eq)]
pub struct Composed {
    /// Without angle brackets.
    pub message_id: String,
    /// RFC 5321 RCPT TO: the recipient's address with its domain in ASCII.
    pub envelope_to: String,
    /// The decoded subject.
    pub subject: String,
    /// The whole message. It is 7-bit if all addresses are ASCII.
    pub bytes: Vec<u8>,
}

impl Draft<'_> {
    /// Composes the message.
    ///
    /// # Errors
    /// [`Error::Message`] names the invalid host name or attachment.
    pub fn compose(&self) -> Result<Composed, Error> {
        let message_id = format!("{}@{}", self.id, host("message domain", self.message_domain)?);
        let subject = one_line(self.subject, SUBJECT_CHARS);
        // lettre's builder of messages reads the mailboxes back, and does not understand quoted local parts (0.11.23).
        let mut headers = Headers::new();
        headers.set(fields::From::from(self.from.mailboxes()));
        headers.set(fields::To::from(self.to.mailboxes()));
        headers.set(fields::Subject::from(subject.clone()));
        headers.set(fields::Date::new(SystemTime::from(self.date.max(Timestamp::UNIX_EPOCH))));
        headers.set(fields::MessageId::from(format!("<{message_id}>")));
        if let Some(address) = self.reply_to {
            headers.set(fields::ReplyTo::from(Party { name: "", address }.mailboxes()));
        }
        if let Some(list_id) = self.of.list_id()? {
            headers.insert_raw(raw("List-Id", list_id));
        }
        if let Some(unsubscribe) = self.unsubscribe {
            headers.insert_raw(raw("List-Unsubscribe", unsubscribe.header()?));
            headers.insert_raw(raw("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".into()));
        }
        headers.insert_raw(raw("Auto-Submitted", "auto-generated".into()));
        // Exchange and Outlook do not read `Auto-Submitted` (MS-OXCMAIL 2.2.3.2.14).
        headers.insert_raw(raw("X-Auto-Response-Suppress", "OOF, AutoReply".into()));
        headers.insert_raw(raw("Feedback-ID", self.of.feedback_id()));
        headers.insert_raw(raw("X-Tidings-Message", self.id.to_string()));
        if let Some(token) = self.token {
            headers.insert_raw(raw(TOKEN_HEADER, token.to_owned()));
        }
        if let MessageKind::Digest { events, threading, .. } = self.of {
            headers.insert_raw(raw("X-Tidings-Events", events.to_string()));
            match threading {
                // Gmail threads by subject and sender, and keeps apart what has different values of this header.
                Threading::Alone => headers.insert_raw(raw("X-Entity-Ref-ID", self.id.to_string())),
                Threading::First => {}
                // The first message has no References, so that it is all that those of an answer have (RFC 5322 3.6.4).
                Threading::Reply(first) => {
                    let first = bracketed("Message-ID of the thread", first)?;
                    headers.set(fields::InReplyTo::from(first.clone()));
                    headers.set(fields::References::from(first));
                }
            }
        }
        headers.set(MIME_VERSION_1_0);
        let mut bytes = headers.to_string().into_bytes();
        bytes.extend(match self.html {
            _ if !self.attachments.is_empty() => self.with_attachments()?.formatted(),
            Some(html) => self.alternatives(html).formatted(),
            None => part(ContentType::TEXT_PLAIN, self.text).formatted(),
        });
        Ok(Composed { message_id, envelope_to: self.to.address.to_string(), subject, bytes })
    }

    /// Puts the body first and the attachments after it. The boundary differs from the one of the alternatives, and neither begins like
    /// the other.
    fn with_attachments(&self) -> Result<MultiPart, Error> {
        let mixed = MultiPart::mixed().boundary(format!("=_m{}", self.id.simple()));
        let mut mixed = match self.html {
            Some(html) => mixed.multipart(self.alternatives(html)),
            None => mixed.singlepart(part(ContentType::TEXT_PLAIN, self.text)),
        };
        for attachment in self.attachments {
            mixed = mixed.singlepart(attachment.part()?);
        }
        Ok(mixed)
    }

    /// Puts the text first, because clients prefer the last alternative (RFC 2046 5.1.4). Neither encoding produces `=_`, so
    /// no content can contain the boundary.
    fn alternatives(&self, html: &str) -> MultiPart {
        MultiPart::alternative()
            .boundary(format!("=_{}", self.id.simple()))
            .singlepart(part(ContentType::TEXT_PLAIN, self.text))
            .singlepart(part(ContentType::TEXT_HTML, &short_lines(html)))
    }
}

impl MessageKind<'_> {
    /// Returns the List-Id (RFC 2919), which is stable for a tenant and digest type. A single message has none.
    fn list_id(self) -> Result<Option<String>, Error> {
        let Self::Digest { tenant, digest_type, list_host, .. } = self else { return Ok(None) };
        let host = host("list host", list_host)?;
        Ok(Some(format!("<{}.{}.{host}>", label(digest_type), label(tenant))))
    }

    /// Returns the Feedback-ID of Gmail's feedback loop: campaign, customer, kind, sender. None identifies a recipient.
    fn feedback_id(self) -> String {
        match self {
            Self::Digest { tenant, digest_type, .. } => {
                format!("{}:{}:digest:tidings", label(digest_type), opaque(tenant))
            }
            Self::Single { tenant, stream } => format!("{}:{}:single:tidings", stream, opaque(tenant)),
        }
    }
}

impl<'a> Unsubscribe<'a> {
    /// Returns the ways that the links of a message offer, if there are some.
    #[must_use]
    pub fn of(links: &'a RecipientLinks) -> Option<Self> {
        Some(Self { url: links.unsubscribe_url.as_deref()?, mailto: links.unsubscribe_mailto.as_deref() })
    }

    /// Returns both URIs in angle brackets, the preferred one first. A line is folded between the URIs only.
    fn header(self) -> Result<String, Error> {
        let uris = [Some(self.url), self.mailto].into_iter().flatten();
        let uris: Vec<_> = uris.map(|uri| bracketed("unsubscribe address", uri)).collect::<Result<_, _>>()?;
        Ok(uris.join(", "))
    }
}

/// Checks a URI or a Message-ID, and returns it in the angle brackets in which a header has it.
fn bracketed(part: &'static str, text: &str) -> Result<String, Error> {
    if text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,".contains(&byte)) {
        return Ok(format!("<{text}>"));
    }
    Err(Error::Message { part, problem: "has a space, or a character that ends it".to_owned() })
}

/// Encodes a part in the shorter of quoted-printable and base64. Both are 7-bit, so no relay needs 8BITMIME.
fn part(kind: ContentType, content: &str) -> SinglePart {
    let wide = content.bytes().filter(|byte| !byte.is_ascii()).count();
    let encoding = if wide * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    // lettre 0.11.23 converts line ends in quadratic time. That is fixed when `body` takes as long for a megabyte of lines that
    // end in LF as for one of lines that end in CR LF.
    let lines = content.replace("\r\n", "\n").replace(['\r', '\n'], "\r\n");
    SinglePart::builder().header(kind).header(encoding).body(lines)
}
