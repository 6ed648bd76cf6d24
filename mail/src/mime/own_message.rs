//! Parses a single message from its bytes, to recompose it with another sender and other links.

use jiff::Timestamp;
use mail_parser::{Address, HeaderName, MessageParser, MessagePart, MimeHeaders as _, PartType};
use tidings_model::{
    EmailAddress,
    records::{MessageOrigin, OutboxMessage},
    settings::RecipientLinks,
};
use uuid::Uuid;

use super::{Attachment, ComposedMessage, MessageDraft, MessageKind, MessageParty, UnsubscribeUris};
use crate::{MailError, dkim::strip_signatures};

#[derive(Clone, PartialEq, Eq)]
struct OwnParty {
    name: String,
    address: EmailAddress,
}

pub struct OwnMessage<'a> {
    kind: MessageKind<'a>,
    id: Uuid,
    date: Timestamp,
    message_domain: &'a str,
    subject: &'a str,
    from: OwnParty,
    to: OwnParty,
    reply_to: Option<EmailAddress>,
    unsubscribe_url: Option<String>,
    unsubscribe_mailto: Option<String>,
    token: Option<String>,
    html: Option<String>,
    text: String,
    attachments: Vec<Attachment>,
}

#[derive(Clone, Copy)]
pub struct ComposeSettings<'a> {
    pub from: MessageParty<'a>,
    pub links: &'a RecipientLinks,
    pub token: Option<&'a str>,
}

impl<'a> OwnMessage<'a> {
    /// `None` if composing the message again would not give exactly these bytes, because then not all of it
    /// is ours.
    #[must_use]
    pub fn from_stored(message: &'a OutboxMessage) -> Option<Self> {
        let MessageOrigin::Single { key, .. } = &message.origin else { return None };
        let parsed = MessageParser::default().parse(&message.bytes)?;
        let field = |name: &'static str| Some(parsed.header_raw(name)?.split_ascii_whitespace().collect::<String>());
        let listed = field("List-Unsubscribe").unwrap_or_default();
        let mut uris = listed.split(',').filter_map(|uri| uri.strip_prefix('<')?.strip_suffix('>')).map(str::to_owned);
        let named = |parties: Option<&Address<'_>>| {
            let party = parties.and_then(Address::first);
            party.and_then(|party| party.name.as_deref()).unwrap_or_default().to_owned()
        };
        let address = |parties: Option<&Address<'_>>| parties?.first()?.address.as_deref()?.parse().ok();
        let lines = |text: &str| text.replace("\r\n", "\n");
        let (html, text) = (html(&parsed).map(lines), lines(text(&parsed)?));
        let attachments = parsed.attachments().map(|part| attachment(part, &message.bytes));
        let own = Self {
            kind: MessageKind::Single { tenant: &key.tenant, stream: message.stream },
            id: message.id,
            date: message.made_at,
            message_domain: message.message_id.split_once('@')?.1,
            subject: &message.subject,
            from: OwnParty { name: named(parsed.from()), address: address(parsed.from())? },
            to: OwnParty { name: named(parsed.to()), address: message.envelope_to.parse().ok()? },
            reply_to: address(parsed.reply_to()),
            unsubscribe_url: uris.next(),
            unsubscribe_mailto: uris.next(),
            token: field(super::TOKEN_HEADER),
            html,
            text,
            attachments: attachments.collect::<Option<_>>()?,
        };
        let is_whole =
            |own: &Self| own.recompose_unchanged().is_ok_and(|made| made.bytes == strip_signatures(&message.bytes));
        if is_whole(&own) {
            return Some(own);
        }
        // The final line end belongs to the message, not to its text.
        let text = own.text.strip_suffix('\n').unwrap_or(&own.text).to_owned();
        Some(Self { text, ..own }).filter(is_whole)
    }

    /// Recomposes the message with today's configuration, keeping its id and date. Replaces its links with
    /// today's; a link without a replacement stays.
    ///
    /// # Errors
    /// As for [`MessageDraft::compose`].
    pub fn composed_with(&self, today: ComposeSettings<'_>) -> Result<ComposedMessage, MailError> {
        let link = |link: &str| self.with_links(link, today.links);
        let (html, text) = (self.html.as_deref().map(link), link(&self.text));
        let unsubscribe = UnsubscribeUris::from_links(today.links).or_else(|| self.unsubscribe());
        let token = today.token.or(self.token.as_deref());
        MessageDraft { from: today.from, html: html.as_deref(), text: &text, unsubscribe, token, ..self.draft() }
            .compose()
    }

    fn recompose_unchanged(&self) -> Result<ComposedMessage, MailError> {
        self.draft().compose()
    }

    fn draft(&self) -> MessageDraft<'_> {
        MessageDraft {
            from: self.from.party(),
            to: self.to.party(),
            reply_to: self.reply_to.as_ref(),
            subject: self.subject,
            html: self.html.as_deref(),
            text: &self.text,
            id: self.id,
            of: self.kind,
            date: self.date,
            message_domain: self.message_domain,
            unsubscribe: self.unsubscribe(),
            token: self.token.as_deref(),
            attachments: &self.attachments,
        }
    }

    fn unsubscribe(&self) -> Option<UnsubscribeUris<'_>> {
        Some(UnsubscribeUris { url: self.unsubscribe_url.as_deref()?, mailto: self.unsubscribe_mailto.as_deref() })
    }

    /// Both as plain text and escaped for HTML.
    fn with_links(&self, body: &str, links: &RecipientLinks) -> String {
        let mut body = body.to_owned();
        if let (Some(own), Some(today)) = (&self.unsubscribe_url, &links.unsubscribe_url) {
            body = body.replace(own, today).replace(&own.replace('&', "&amp;"), &today.replace('&', "&amp;"));
        }
        let Some(view_url) = &links.view_url else { return body };
        let ours = self.unsubscribe_url.as_ref().and_then(|url| url.split_once("/u/"));
        let Some((base, _)) = ours.or_else(|| view_url.split_once("/v/")) else { return body };
        with_view(&body, &format!("{base}/v/"), view_url)
    }
}

impl OwnParty {
    fn party(&self) -> MessageParty<'_> {
        MessageParty { name: &self.name, address: &self.address }
    }
}

fn with_view(text: &str, begins: &str, view_url: &str) -> String {
    let is_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut parts = text.split(begins);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        replaced.push_str(view_url);
        replaced.push_str(part.trim_start_matches(is_token));
    }
    replaced
}

fn attachment(part: &MessagePart<'_>, message: &[u8]) -> Option<Attachment> {
    let kind = part.headers.iter().find(|header| header.name == HeaderName::ContentType)?;
    let (start, end) = (usize::try_from(kind.offset_start).ok()?, usize::try_from(kind.offset_end).ok()?);
    let media_type = std::str::from_utf8(message.get(start..end)?).ok()?;
    Some(Attachment {
        name: part.attachment_name()?.to_owned(),
        media_type: media_type.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
        bytes: part.contents().to_vec(),
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageBody {
    Html(String),
    Text(String),
}

impl MessageBody {
    /// Parses a message (RFC 5322). `None` without HTML and text.
    #[must_use]
    pub fn from_message(message: &[u8]) -> Option<Self> {
        let message = MessageParser::default().parse(message)?;
        let html = html(&message).map(|html| Self::Html(html.to_owned()));
        html.or_else(|| text(&message).map(|text| Self::Text(text.to_owned())))
    }
}

fn html<'m>(message: &'m mail_parser::Message<'_>) -> Option<&'m str> {
    message.html_bodies().find_map(|part| match &part.body {
        PartType::Html(html) => Some(&**html),
        _ => None,
    })
}

fn text<'m>(message: &'m mail_parser::Message<'_>) -> Option<&'m str> {
    message.text_bodies().find_map(|part| match &part.body {
        PartType::Text(text) => Some(&**text),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use tidings_model::{MessageKey, settings::StreamName};

    use super::*;

    const URL: &str = "https://mail.b.example/u/AWZz";
    const VIEW: &str = "https://mail.b.example/v/old-token_1";

    fn file(name: &str, media_type: &str, bytes: &[u8]) -> Attachment {
        Attachment { name: name.into(), media_type: media_type.into(), bytes: bytes.to_vec() }
    }

    fn message(html: Option<&str>, text: &str, attachments: &[Attachment]) -> OutboxMessage {
        let key = MessageKey::new("acme".into(), "welcome".into()).unwrap();
        let (from, to) = ("digest@old.example".parse().unwrap(), "ann@example.net".parse().unwrap());
        let composed = MessageDraft {
            from: MessageParty { name: "Acme, Ünc.", address: &from },
            to: MessageParty { name: "Ann \"A\" Lee", address: &to },
            reply_to: Some(&to),
            subject: "Grüße an alle, die dies lesen, und noch viel mehr Worte, die eine Zeile füllen",
            html,
            text,
            id: key.message_id(),
            of: MessageKind::Single { tenant: "acme", stream: StreamName::Bulk },
            date: "2026-03-02T08:00:00Z".parse().unwrap(),
            message_domain: "old.example",
            unsubscribe: Some(UnsubscribeUris {
                url: URL,
                mailto: Some("mailto:b+abc@old.example?subject=unsubscribe"),
            }),
            token: Some("abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop"),
            attachments,
        }
        .compose()
        .unwrap();
        OutboxMessage {
            id: key.message_id(),
            origin: MessageOrigin::Single { key, user: None, content_sha256: String::new() },
            stream: StreamName::Bulk,
            envelope_from: "digest@old.example".into(),
            envelope_to: composed.envelope_to,
            message_id: composed.message_id,
            subject: composed.subject,
            bytes: [b"DKIM-Signature: v=1; a=rsa-sha256;\r\n\tb=abc\r\n", &composed.bytes[..]].concat(),
            template: String::new(),
            counted: false,
            made_from: String::new(),
            thread: None,
            made_at: "2026-03-02T08:00:00Z".parse().unwrap(),
        }
    }

    fn today(message: &OutboxMessage) -> Option<String> {
        let from: EmailAddress = "digest@new.example".parse().unwrap();
        let links = RecipientLinks {
            unsubscribe_url: Some("https://mail.b.example/u/BBBB?a=1&b=2".into()),
            view_url: Some("https://mail.b.example/v/new".into()),
            ..RecipientLinks::default()
        };
        let from = MessageParty { name: "Acme", address: &from };
        let own = OwnMessage::from_stored(message)?;
        let made = own.composed_with(ComposeSettings { from, links: &links, token: Some("t") }).unwrap();
        assert_eq!(made.message_id, message.message_id);
        Some(String::from_utf8(made.bytes).unwrap())
    }

    #[test]
    fn a_message_of_each_shape_is_read_back_and_has_the_sender_and_links_of_today() {
        let html = format!(
            "<p>Grüße, 你好</p>\n<a href=\"{URL}\">stop</a> <a href='{VIEW}'>view</a>\n{}",
            "<b>x</b> ".repeat(200)
        );
        let text = format!("Grüße\n\n.dots\n{URL}\n{VIEW}.");
        let wide = "你好".repeat(500);
        let files =
            [file("Grüße 🎉.pdf", "application/pdf", &[0, 255, 10]), file("a.txt", "text/plain", b"not the text")];
        for (html, text, files) in [
            (Some(html.as_str()), text.as_str(), &[][..]),
            (Some(&html), &wide, &[]),
            (None, &text, &[]),
            (None, "ends with a line end\n", &[]),
            (None, &wide, &[]),
            (Some(&html), &text, &files[..]),
            (None, &text, &files),
        ] {
            let message = message(html, text, files);
            let made = today(&message).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&message.bytes)));
            let parsed = MessageParser::default().parse(made.as_bytes()).unwrap();
            let from = parsed.from().and_then(Address::first).unwrap();
            assert_eq!(from.address.as_deref(), Some("digest@new.example"));
            assert!(parsed.header_raw("List-Unsubscribe").unwrap().contains("/u/BBBB?a=1&b=2"), "{made}");
            let bodies = [parsed.body_text(0).unwrap(), parsed.body_html(0).unwrap()].join(" ");
            assert!(!bodies.contains(URL) && !bodies.contains("old-token"), "{bodies}");
            assert_eq!(bodies.contains("/v/new"), text.contains("/v/") || html.is_some(), "{bodies}");
            assert!(!made.contains("DKIM-Signature"), "the signature is of other bytes");
        }
    }

    #[test]
    fn bytes_that_are_not_ours_are_left_alone() {
        let ours = message(None, "Hi", &[]);
        assert!(today(&ours).is_some());
        for (from, to) in [("Auto-Submitted", "X-Submitted"), ("quoted-printable", "8bit")] {
            let bytes = String::from_utf8(ours.bytes.clone()).unwrap().replace(from, to).into_bytes();
            assert!(today(&OutboxMessage { bytes, ..ours.clone() }).is_none(), "{from}");
        }
    }

    #[test]
    fn html_comes_before_text() {
        let both =
            b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nHi\r\n\
                     --b\r\nContent-Type: text/html\r\n\r\n<p>Hi</p>\r\n--b--\r\n";
        assert_eq!(MessageBody::from_message(both), Some(MessageBody::Html("<p>Hi</p>".into())));
        assert_eq!(
            MessageBody::from_message(b"Content-Type: text/plain\r\n\r\nHi"),
            Some(MessageBody::Text("Hi".into()))
        );
        assert_eq!(MessageBody::from_message(b""), None);
    }
}
