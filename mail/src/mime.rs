//! Composes a message's bytes (RFC 5322), once, so every attempt sends the same bytes.

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

use crate::{MailError, bidi, lettre_address};

mod own_message;
#[cfg(test)]
mod tests;

pub use self::own_message::{ComposeSettings, MessageBody, OwnMessage};

/// In characters, to keep header lines short.
const SUBJECT_CHARS: usize = 200;
const NAME_CHARS: usize = 80;

/// Complaints return this header with the message; bounces instead arrive at an address with the token.
pub const TOKEN_HEADER: &str = "X-Tidings-Token";

#[derive(Clone, Copy)]
pub struct MessageParty<'a> {
    /// Display name, may be empty. Control characters are removed.
    pub name: &'a str,
    pub address: &'a EmailAddress,
}

impl MessageParty<'_> {
    fn mailboxes(self) -> Mailboxes {
        let name = one_line(self.name, NAME_CHARS);
        Mailbox::new((!name.is_empty()).then_some(name), lettre_address(self.address)).into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPosition<'a> {
    /// Never thread, even beside digests with the same subject.
    Alone,
    First,
    /// Message-ID of the thread's first message, without angle brackets.
    Reply(&'a str),
}

/// Selects the headers mail clients sort by.
#[derive(Clone, Copy)]
pub enum MessageKind<'a> {
    /// Recipients filter and unsubscribe by the digest's list.
    Digest {
        tenant: &'a str,
        digest_type: &'a str,
        events: u64,
        /// Right side of the List-Id.
        list_host: &'a str,
        threading: ThreadPosition<'a>,
    },
    Single {
        tenant: &'a str,
        stream: StreamName,
    },
}

/// The same draft always composes to the same bytes.
#[derive(Clone, Copy)]
pub struct MessageDraft<'a> {
    pub from: MessageParty<'a>,
    pub to: MessageParty<'a>,
    /// Defaults to `from`.
    pub reply_to: Option<&'a EmailAddress>,
    pub subject: &'a str,
    pub html: Option<&'a str>,
    pub text: &'a str,
    /// A digest's own id.
    pub id: Uuid,
    pub of: MessageKind<'a>,
    pub date: Timestamp,
    /// Right side of the Message-ID.
    pub message_domain: &'a str,
    /// Only in the bulk stream.
    pub unsubscribe: Option<UnsubscribeUris<'a>>,
    /// Proves a report about this message.
    pub token: Option<&'a str>,
    pub attachments: &'a [Attachment],
}

/// For mail clients (RFC 2369, RFC 8058).
#[derive(Clone, Copy)]
pub struct UnsubscribeUris<'a> {
    /// Accepts a one-click POST.
    pub url: &'a str,
    /// For clients that cannot POST.
    pub mailto: Option<&'a str>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ComposedMessage {
    pub message_id: String,
    /// RCPT TO (RFC 5321): the recipient's address with an ASCII domain.
    pub envelope_to: String,
    pub subject: String,
    /// 7-bit if all addresses are ASCII.
    pub bytes: Vec<u8>,
}

impl MessageDraft<'_> {
    /// # Errors
    /// [`MailError::Message`] names the invalid host name or attachment.
    pub fn compose(&self) -> Result<ComposedMessage, MailError> {
        let message_id = format!("{}@{}", self.id, host("message domain", self.message_domain)?);
        let subject = one_line(self.subject, SUBJECT_CHARS);
        // Don't use lettre's message builder: it reparses the mailboxes and rejects quoted local parts
        // (0.11.23).
        let mut headers = Headers::new();
        headers.set(fields::From::from(self.from.mailboxes()));
        headers.set(fields::To::from(self.to.mailboxes()));
        headers.set(fields::Subject::from(subject.clone()));
        headers.set(fields::Date::new(SystemTime::from(self.date.max(Timestamp::UNIX_EPOCH))));
        headers.set(fields::MessageId::from(format!("<{message_id}>")));
        if let Some(address) = self.reply_to {
            headers.set(fields::ReplyTo::from(MessageParty { name: "", address }.mailboxes()));
        }
        if let Some(list_id) = self.of.list_id()? {
            headers.insert_raw(ascii_header("List-Id", list_id));
        }
        if let Some(unsubscribe) = self.unsubscribe {
            headers.insert_raw(ascii_header("List-Unsubscribe", unsubscribe.header()?));
            headers.insert_raw(ascii_header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".into()));
        }
        headers.insert_raw(ascii_header("Auto-Submitted", "auto-generated".into()));
        // Exchange and Outlook ignore `Auto-Submitted` (MS-OXCMAIL 2.2.3.2.14).
        headers.insert_raw(ascii_header("X-Auto-Response-Suppress", "OOF, AutoReply".into()));
        headers.insert_raw(ascii_header("Feedback-ID", self.of.feedback_id()));
        headers.insert_raw(ascii_header("X-Tidings-Message", self.id.to_string()));
        if let Some(token) = self.token {
            headers.insert_raw(ascii_header(TOKEN_HEADER, token.to_owned()));
        }
        if let MessageKind::Digest { events, threading, .. } = self.of {
            headers.insert_raw(ascii_header("X-Tidings-Events", events.to_string()));
            match threading {
                // Gmail threads by subject and sender, unless this header differs.
                ThreadPosition::Alone => headers.insert_raw(ascii_header("X-Entity-Ref-ID", self.id.to_string())),
                ThreadPosition::First => {}
                // The first message has no References, so a reply only lists the first (RFC 5322 3.6.4).
                ThreadPosition::Reply(first) => {
                    let first = angle_bracketed("Message-ID of the thread", first)?;
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
        Ok(ComposedMessage { message_id, envelope_to: self.to.address.to_string(), subject, bytes })
    }

    /// Neither boundary, this or the alternatives', should be a prefix of the other.
    fn with_attachments(&self) -> Result<MultiPart, MailError> {
        let mixed = MultiPart::mixed().boundary(format!("=_m{}", self.id.simple()));
        let mut mixed = match self.html {
            Some(html) => mixed.multipart(self.alternatives(html)),
            None => mixed.singlepart(part(ContentType::TEXT_PLAIN, self.text)),
        };
        for attachment in self.attachments {
            mixed = mixed.singlepart(attachment.mime_part()?);
        }
        Ok(mixed)
    }

    /// Text comes first, because clients prefer the last alternative (RFC 2046 5.1.4). Neither encoding
    /// produces `=_`, so content cannot contain the boundary.
    fn alternatives(&self, html: &str) -> MultiPart {
        MultiPart::alternative()
            .boundary(format!("=_{}", self.id.simple()))
            .singlepart(part(ContentType::TEXT_PLAIN, self.text))
            .singlepart(part(ContentType::TEXT_HTML, &short_lines(html)))
    }
}

impl MessageKind<'_> {
    /// List-Id (RFC 2919), stable per tenant and digest type. `None` for a single message.
    fn list_id(self) -> Result<Option<String>, MailError> {
        let Self::Digest { tenant, digest_type, list_host, .. } = self else { return Ok(None) };
        let host = host("list host", list_host)?;
        Ok(Some(format!("<{}.{}.{host}>", label(digest_type), label(tenant))))
    }

    /// Feedback-ID for Gmail's feedback loop: campaign, customer, kind, sender. No field identifies a
    /// recipient.
    fn feedback_id(self) -> String {
        match self {
            Self::Digest { tenant, digest_type, .. } => {
                format!("{}:{}:digest:tidings", label(digest_type), opaque_id(tenant))
            }
            Self::Single { tenant, stream } => format!("{}:{}:single:tidings", stream, opaque_id(tenant)),
        }
    }
}

impl<'a> UnsubscribeUris<'a> {
    #[must_use]
    pub fn from_links(links: &'a RecipientLinks) -> Option<Self> {
        Some(Self { url: links.unsubscribe_url.as_deref()?, mailto: links.unsubscribe_mailto.as_deref() })
    }

    /// Only folds between the two URIs.
    fn header(self) -> Result<String, MailError> {
        let uris = [Some(self.url), self.mailto].into_iter().flatten();
        let uris: Vec<_> = uris.map(|uri| angle_bracketed("unsubscribe address", uri)).collect::<Result<_, _>>()?;
        Ok(uris.join(", "))
    }
}

fn angle_bracketed(part: &'static str, text: &str) -> Result<String, MailError> {
    if text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,".contains(&byte)) {
        return Ok(format!("<{text}>"));
    }
    Err(MailError::Message { part, problem: "has a space, or a character that ends it".to_owned() })
}

/// Uses the shorter encoding, quoted-printable or base64. Both are 7-bit, so no relay needs 8BITMIME.
fn part(kind: ContentType, content: &str) -> SinglePart {
    let wide = content.bytes().filter(|byte| !byte.is_ascii()).count();
    let encoding = if wide * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    // lettre 0.11.23 converts line ends in quadratic time. Remove this once `body` is as fast for a megabyte
    // with LF as with CR LF.
    let lines = content.replace("\r\n", "\n").replace(['\r', '\n'], "\r\n");
    SinglePart::builder().header(kind).header(encoding).body(lines)
}

/// In bytes.
const NAME_BYTES: usize = 150;
const TYPE_BYTES: usize = 100;

#[derive(Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Without a folder.
    pub name: String,
    /// RFC 2046, e.g. `application/pdf`.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

impl Attachment {
    /// Encodes the file in base64, which relays leave unchanged. Removes direction overrides from the name:
    /// with U+202E, `gnp.exe` would end in `exe.png`.
    ///
    /// # Errors
    /// The name or the media type is invalid.
    fn mime_part(&self) -> Result<SinglePart, MailError> {
        let wrong = |problem: &str| MailError::Message { part: "attachment", problem: problem.to_owned() };
        let unfit = |c: char| c.is_control() || matches!(c, '/' | '\\' | '"' | '\u{2028}' | '\u{2029}');
        let name = self.name.replace(bidi::is_reordering, "");
        if name.trim().is_empty() || name.len() > NAME_BYTES || name.contains(unfit) {
            return Err(wrong(
                "has a name that is empty, is over 150 bytes, or has a slash, a quote or a control character",
            ));
        }
        // RFC 2046 5.1 and 5.2 forbid base64 for both.
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

/// With the hash, a label stays below DNS's limit (63 bytes).
const LABEL_CHARS: usize = 40;

/// Never change this.
const LABELS: Uuid = Uuid::from_u128(0x7d0a_4c1e_93b5_5f26_8a41_c06e_5b9f_2d18);

/// Replaces control characters and line separators with spaces, and collapses runs. Removes direction
/// overrides, which can make `evil@example.com` look like another address. Breaks up anything like an encoded
/// word (RFC 2047), so clients won't decode it.
fn one_line(text: &str, max_chars: usize) -> String {
    let separator = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '\u{2028}' | '\u{2029}');
    let text = bidi::without_overrides(text);
    let line = text.split(separator).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    cut_text(&line.replace("=?", "= ?"), max_chars).trim_end().to_owned()
}

fn host<'a>(part: &'static str, name: &'a str) -> Result<&'a str, MailError> {
    if is_host_name(name) {
        return Ok(name);
    }
    Err(MailError::Message { part, problem: format!("{name:?} is not a host name like lists.example.com") })
}

/// Keeps an id of lower-case letters, digits, `-` and `_`. Otherwise drops other characters and adds a hash,
/// which keeps labels distinct.
fn label(id: &str) -> String {
    let kept = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let clean: String = id.to_ascii_lowercase().chars().filter(kept).take(LABEL_CHARS).collect();
    if clean == id && !id.is_empty() {
        return clean;
    }
    format!("{clean}-{}", opaque_id(id)).trim_start_matches('-').to_owned()
}

/// Hashes an id to twelve characters, which match without revealing it.
fn opaque_id(id: &str) -> String {
    Uuid::new_v5(&LABELS, id.as_bytes()).simple().to_string().split_off(20)
}

/// `value` must already be ASCII.
fn ascii_header(name: &'static str, value: String) -> HeaderValue {
    HeaderValue::new(lettre::message::header::HeaderName::new_from_ascii_str(name), value)
}

// Breaks long HTML lines inside tags, where a line end means the same as a space.

/// Courier 1.0.16 re-encodes a part for servers without 8BITMIME if a decoded line exceeds 500 bytes, which
/// breaks the signature.
const LINE_BYTES: usize = 480;

/// Never splits attribute values.
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
    String::from_utf8(bytes).unwrap_or_else(|_| html.to_owned())
}
