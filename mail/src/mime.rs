//! The bytes of a message (RFC 5322). They are composed once, and every attempt sends the same bytes.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::message::{
    Mailbox, Mailboxes, MultiPart, SinglePart,
    header::{
        self as fields, ContentDisposition, ContentTransferEncoding, ContentType, HeaderValue, Headers,
        MIME_VERSION_1_0,
    },
};
use tidings_model::{
    EmailAddress,
    foreign_text::cut_text,
    is_host_name,
    settings::{RecipientLinks, StreamName},
};
use uuid::Uuid;

use crate::{Error, bidi, checked};

mod own_message;
#[cfg(test)]
mod tests;

pub use self::own_message::{Body, Configured, OwnMessage};

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
        let name = one_line(self.name, NAME_CHARS);
        Mailbox::new((!name.is_empty()).then_some(name), checked(self.address)).into()
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

/// Limits of a name and of a media type, in bytes.
const NAME_BYTES: usize = 150;
const TYPE_BYTES: usize = 100;

/// A file that comes with a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The name of the file, without a folder.
    pub name: String,
    /// The media type (RFC 2046), for example `application/pdf`.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Attachment {
    /// Encodes the file in base64, which no relay changes. Its name loses what reorders text: with U+202E, `gnp.exe` ends in `exe.png`.
    ///
    /// # Errors
    /// Says what is wrong with the name or the media type.
    fn part(&self) -> Result<SinglePart, Error> {
        let wrong = |problem: &str| Error::Message { part: "attachment", problem: problem.to_owned() };
        let unfit = |c: char| c.is_control() || matches!(c, '/' | '\\' | '"' | '\u{2028}' | '\u{2029}');
        let name = self.name.replace(bidi::reorders, "");
        if name.trim().is_empty() || name.len() > NAME_BYTES || name.contains(unfit) {
            return Err(wrong(
                "has a name that is empty, is over 150 bytes, or has a slash, a quote or a control character",
            ));
        }
        // RFC 2046 5.1 and 5.2: both must not be in base64.
        let composite = ["multipart/", "message/"].iter().any(|kind| starts_with(&self.media_type, kind));
        let plain = self.media_type.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        if composite || !plain || self.media_type.len() > TYPE_BYTES {
            return Err(wrong("has a media type that cannot be attached; write for example application/pdf"));
        }
        let kind = ContentType::parse(&self.media_type);
        let kind = kind.map_err(|_| wrong("has no media type like application/pdf"))?;
        let part = SinglePart::builder().header(kind).header(ContentDisposition::attachment(&name));
        Ok(part.header(ContentTransferEncoding::Base64).body(self.bytes.clone()))
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Characters of an id that a label keeps. With the hash the label stays below the 63 bytes of DNS.
const LABEL_CHARS: usize = 40;

/// Namespace of the hashes in labels (UUIDv5). It never changes.
const LABELS: Uuid = Uuid::from_u128(0x7d0a_4c1e_93b5_5f26_8a41_c06e_5b9f_2d18);

/// Returns one line of at most `max_chars` characters. Control characters and line separators become spaces, and runs of
/// spaces become one. Overrides of the direction go: with one, `evil@example.com` can show itself as another address. A space breaks up
/// anything that looks like an encoded word (RFC 2047), so that no client decodes it.
fn one_line(text: &str, max_chars: usize) -> String {
    let separator = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}');
    let text = bidi::without_overrides(text);
    let line = text.split(separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    cut_text(&line.replace("=?", "= ?"), max_chars).trim_end().to_owned()
}

/// Checks a host name for use in an identifier.
fn host<'a>(part: &'static str, name: &'a str) -> Result<&'a str, Error> {
    if is_host_name(name) {
        return Ok(name);
    }
    Err(Error::Message { part, problem: format!("{name:?} is not a host name like lists.example.com") })
}

/// Returns the label of an id. An id of lower-case letters, digits, `-` and `_` is its own label. From any other id the label
/// keeps those characters and adds a hash, which keeps labels apart.
fn label(id: &str) -> String {
    let kept = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let clean: String = id.to_ascii_lowercase().chars().filter(kept).take(LABEL_CHARS).collect();
    if clean == id && !id.is_empty() {
        return clean;
    }
    format!("{clean}-{}", opaque(id)).trim_start_matches('-').to_owned()
}

/// Returns twelve characters that identify an id without revealing it.
fn opaque(id: &str) -> String {
    Uuid::new_v5(&LABELS, id.as_bytes()).simple().to_string().split_off(20)
}

/// A header whose value is already ASCII.
fn raw(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(lettre::message::header::HeaderName::new_from_ascii_str(name), value)
}

// Breaks long lines of HTML within tags, where a line end means the same as a space.

/// Courier 1.0.16 encodes a part anew for servers without 8BITMIME if a decoded line has more than 500 bytes, and breaks its signature.
const LINE_BYTES: usize = 480;

/// Replaces spaces between attributes by line ends. A value that is longer than a line stays whole.
fn short_lines(html: &str) -> String {
    let mut bytes = html.as_bytes().to_vec();
    let (mut line, mut space, mut quote, mut in_tag, mut at) = (0, None, None, false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => (line, space) = (at + 1, None),
            b'<' if !in_tag && html[at..].starts_with("<!--") => {
                let end = html[at..].find("-->").map_or(bytes.len(), |end| at + end);
                if let Some(last) = html[at..end].rfind('\n') {
                    (line, space) = (at + last + 1, None);
                }
                at = end;
                continue;
            }
            b'<' if !in_tag => in_tag = true,
            b'>' if in_tag && quote.is_none() => in_tag = false,
            byte @ (b'"' | b'\'') if in_tag => match quote {
                None => quote = Some(byte),
                Some(open) if open == byte => quote = None,
                Some(_) => {}
            },
            b' ' if in_tag && quote.is_none() => space = Some(at),
            _ => {}
        }
        if at - line.min(at) >= LINE_BYTES
            && let Some(last) = space.take()
        {
            bytes[last] = b'\n';
            line = last + 1;
        }
        at += 1;
    }
    // Only ASCII was replaced by ASCII.
    String::from_utf8(bytes).unwrap_or_else(|_| html.to_owned())
}
