//! A message's bytes (RFC 5322), made once and sent as they are by every attempt.

use std::time::SystemTime;

use jiff::Timestamp;
use lettre::message::{
    Mailbox, Message, MultiPart, SinglePart,
    header::{ContentTransferEncoding, ContentType},
};
use uuid::Uuid;

use super::{
    Error,
    header::{address, host, label, one_line, opaque, raw},
};

/// Characters of a subject and of a display name: beyond that nobody reads, and header lines get too long.
const SUBJECT_CHARS: usize = 200;
const NAME_CHARS: usize = 80;

/// Somebody with an address.
#[derive(Clone, Copy)]
pub struct Person<'a> {
    /// Display name; may be empty. Control characters do not get through.
    pub name: &'a str,
    /// RFC 5321 addr-spec; the domain may be international.
    pub address: &'a str,
}

/// What a mail is: decides the headers that tell programs so.
#[derive(Clone, Copy)]
pub enum Of<'a> {
    /// One of many of its kind, which recipients filter and end by.
    Digest {
        tenant: &'a str,
        digest_type: &'a str,
        /// Events in the digest.
        events: u64,
        /// The right side of the List-Id: a host name of the sender.
        list_host: &'a str,
    },
    /// A single one.
    Single { tenant: &'a str, stream: &'a str },
}

/// A digest or a single message as a mail. The same draft makes the same bytes.
#[derive(Clone, Copy)]
pub struct Draft<'a> {
    pub from: Person<'a>,
    pub to: Person<'a>,
    /// Where answers go, if not to `from`.
    pub reply_to: Option<&'a str>,
    pub subject: &'a str,
    /// Without it the mail is plain text.
    pub html: Option<&'a str>,
    pub text: &'a str,
    /// The id of the message, which for a digest is its own.
    pub id: Uuid,
    pub of: Of<'a>,
    /// When the message was rendered first.
    pub date: Timestamp,
    /// The right side of the Message-ID: a host name of the sender.
    pub message_domain: &'a str,
}

/// What [`Draft::compose`] made.
#[derive(Clone, PartialEq, Eq)]
pub struct Composed {
    /// Without angle brackets.
    pub message_id: String,
    /// RFC 5321 RCPT TO: the recipient's address with its domain in ASCII.
    pub envelope_to: String,
    /// The subject as it stands in the message, decoded.
    pub subject: String,
    /// The whole message. 7-bit unless an address is not.
    pub bytes: Vec<u8>,
}

impl Draft<'_> {
    /// Makes the message.
    ///
    /// # Errors
    /// [`Error::Message`] names the address or host name that is none.
    pub fn compose(&self) -> Result<Composed, Error> {
        let message_id = format!("{}@{}", self.id, host("message domain", self.message_domain)?);
        let to = mailbox("recipient address", self.to)?;
        let subject = one_line(self.subject, SUBJECT_CHARS);
        let envelope_to = to.email.to_string();
        let mut builder = Message::builder()
            .from(mailbox("sender address", self.from)?)
            .to(to)
            .subject(subject.as_str())
            .date(SystemTime::from(self.date.max(Timestamp::UNIX_EPOCH)))
            .message_id(Some(format!("<{message_id}>")));
        if let Some(reply_to) = self.reply_to {
            builder = builder.reply_to(Mailbox::new(None, address("reply-to address", reply_to)?));
        }
        if let Some(list_id) = self.of.list_id()? {
            builder = builder.raw_header(raw("List-Id", list_id));
        }
        builder = builder
            .raw_header(raw("Auto-Submitted", "auto-generated".into()))
            .raw_header(raw("Feedback-ID", self.of.feedback_id()))
            .raw_header(raw("X-Tidings-Message", self.id.to_string()));
        if let Of::Digest { events, .. } = self.of {
            builder = builder.raw_header(raw("X-Tidings-Events", events.to_string()));
        }
        let message = match self.html {
            Some(html) => builder.multipart(self.alternatives(html)),
            None => builder.singlepart(part(ContentType::TEXT_PLAIN, self.text)),
        };
        let message = message.map_err(|e| Error::Message { part: "header", problem: e.to_string() })?;
        Ok(Composed { message_id, envelope_to, subject, bytes: message.formatted() })
    }

    /// Text first: the last alternative is the preferred one (RFC 2046 5.1.4). Neither encoding can make `=_`, so no
    /// content can contain the boundary.
    fn alternatives(&self, html: &str) -> MultiPart {
        MultiPart::alternative()
            .boundary(format!("=_{}", self.id.simple()))
            .singlepart(part(ContentType::TEXT_PLAIN, self.text))
            .singlepart(part(ContentType::TEXT_HTML, html))
    }
}

impl Of<'_> {
    /// Stable per tenant and digest type (RFC 2919): filters go by it. A single message is of no list.
    fn list_id(self) -> Result<Option<String>, Error> {
        let Self::Digest { tenant, digest_type, list_host, .. } = self else { return Ok(None) };
        let host = host("list host", list_host)?;
        Ok(Some(format!("<{}.{}.{host}>", label(digest_type), label(tenant))))
    }

    /// Campaign, customer, kind of mail, sender (Gmail's feedback loop): none of them tells a person.
    fn feedback_id(self) -> String {
        match self {
            Self::Digest { tenant, digest_type, .. } => {
                format!("{}:{}:digest:tidings", label(digest_type), opaque(tenant))
            }
            Self::Single { tenant, stream } => format!("{}:{}:single:tidings", label(stream), opaque(tenant)),
        }
    }
}

fn mailbox(part: &'static str, person: Person<'_>) -> Result<Mailbox, Error> {
    let name = one_line(person.name, NAME_CHARS);
    Ok(Mailbox::new((!name.is_empty()).then_some(name), address(part, person.address)?))
}

/// Quoted-printable while it is the shorter one: 7-bit, so that no relay needs 8BITMIME.
fn part(kind: ContentType, content: &str) -> SinglePart {
    let wide = content.bytes().filter(|byte| !byte.is_ascii()).count();
    let encoding = if wide * 6 > content.len() {
        ContentTransferEncoding::Base64
    } else {
        ContentTransferEncoding::QuotedPrintable
    };
    // Beforehand, because lettre does it in quadratic time.
    let lines = content.replace("\r\n", "\n").replace(['\r', '\n'], "\r\n");
    SinglePart::builder().header(kind).header(encoding).body(lines)
}

#[cfg(test)]
mod tests {
    use mail_parser::MessageParser;
    use proptest::prelude::*;

    use super::*;

    fn draft() -> Draft<'static> {
        Draft {
            from: Person { name: "Acme", address: "digest@mail.example.com" },
            to: Person { name: "Ann", address: "ann@example.net" },
            reply_to: None,
            subject: "3 new comments",
            html: Some("<p>Three new comments</p>\n"),
            text: "Three new comments\n",
            id: Uuid::from_u128(0x0123_4567_89ab_5def_8123_4567_89ab_cdef),
            of: Of::Digest { tenant: "acme", digest_type: "activity", events: 7, list_host: "lists.example.com" },
            date: "2026-03-02T08:00:00Z".parse().unwrap(),
            message_domain: "mail.example.com",
        }
    }

    #[test]
    fn a_single_message_is_of_no_list_and_may_be_plain_text() {
        let of = Of::Single { tenant: "acme", stream: "transactional" };
        let made = Draft { of, html: None, ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        assert_eq!(parsed.body_text(0).unwrap().trim_end(), "Three new comments");
        assert_eq!((parsed.parts.len(), parsed.header_raw("List-Id")), (1, None));
        let headers = header_names(&made.bytes);
        assert!(headers.contains(&"X-Tidings-Message".to_owned()), "{headers:?}");
        assert!(!headers.contains(&"X-Tidings-Events".to_owned()), "{headers:?}");
    }

    fn header_names(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        let own = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
        own.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_plain_digest_is_this_mail() {
        insta::assert_snapshot!(String::from_utf8(draft().compose().unwrap().bytes).unwrap().replace("\r\n", "\n"));
    }

    #[test]
    fn an_independent_parser_reads_what_went_in() {
        let long = "A very long subject about comments ".repeat(5);
        for (name, subject, body) in [
            ("Ann", "3 new comments", "plain\n.\n..dots\n-- \nFrom here\n"),
            ("Zoë \"Z\" O'Hara, Jr. <z@evil.example>", "Neu: Grüße — 🎉 für dich", "Grüße\n"),
            ("مرحبا بالعالم", "تقرير أسبوعي عن التعليقات الجديدة في المشروع", "مرحبا\n"),
            ("👩‍👩‍👧‍👦 family", long.trim(), "日本語のテキスト\n"),
            ("a =_ b", "50 % = half?", "=_0123456789ab5def8123456789abcdef\n--=_x\n"),
        ] {
            let to = Person { name, ..draft().to };
            let html = format!("<p>{body}</p>");
            let made = Draft { to, subject, text: body, html: Some(&html), ..draft() }.compose().unwrap();
            let parsed = MessageParser::default().parse(&made.bytes).unwrap();
            assert_eq!(parsed.subject(), Some(subject));
            let recipient = parsed.to().unwrap().first().unwrap();
            assert_eq!((recipient.name(), recipient.address()), (Some(name), Some("ann@example.net")));
            assert_eq!(parsed.body_text(0).unwrap().replace("\r\n", "\n").trim_end(), body.trim_end());
            assert_eq!(parsed.body_html(0).unwrap().replace("\r\n", "\n").trim_end(), html);
            assert_eq!(parsed.parts.len(), 3);
        }
    }

    #[test]
    fn every_header_that_a_digest_must_carry_is_there() {
        let made = Draft { reply_to: Some("help@example.com"), ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        let raw = |name: &'static str| parsed.header_raw(name).unwrap_or_default().trim();
        assert_eq!(parsed.message_id(), Some(made.message_id.as_str()));
        assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-03-02T08:00:00Z");
        assert_eq!(parsed.reply_to().unwrap().first().unwrap().address(), Some("help@example.com"));
        assert_eq!(raw("List-Id"), "<activity.acme.lists.example.com>");
        assert_eq!(raw("Auto-Submitted"), "auto-generated");
        assert_eq!(raw("X-Tidings-Message"), "01234567-89ab-5def-8123-456789abcdef");
        assert!(raw("Feedback-ID").starts_with("activity:") && raw("Feedback-ID").ends_with(":digest:tidings"));
        assert!(!raw("Feedback-ID").contains("acme"));
    }

    #[test]
    fn an_address_that_is_none_is_an_error_that_names_the_part() {
        let bad = Person { name: "", address: "ann@exam ple.com" };
        let error = Draft { to: bad, ..draft() }.compose().err().unwrap();
        assert_eq!(error.to_string(), "message: recipient address is not like name@example.com");
        assert!(Draft { from: bad, ..draft() }.compose().is_err());
        assert!(Draft { reply_to: Some("x"), ..draft() }.compose().is_err());
        let of = Of::Digest { tenant: "acme", digest_type: "activity", events: 7, list_host: "a\r\nBcc: b" };
        assert!(Draft { of, ..draft() }.compose().is_err());
        assert!(Draft { message_domain: "", ..draft() }.compose().is_err());
    }

    #[test]
    fn an_international_domain_becomes_ascii_in_the_envelope() {
        let to = Person { name: "Ann", address: "ann@bücher.example" };
        let made = Draft { to, ..draft() }.compose().unwrap();
        assert_eq!(made.envelope_to, "ann@xn--bcher-kva.example");
        assert!(made.bytes.is_ascii());
    }

    proptest! {
        #[test]
        fn no_string_adds_a_header_or_a_part(
            name in any::<String>(), subject in any::<String>(), text in any::<String>(), html in any::<String>(),
            tenant in any::<String>(), digest_type in any::<String>(),
        ) {
            let to = Person { name: &name, ..draft().to };
            let from = Person { name: &subject, ..draft().from };
            let of = Of::Digest { tenant: &tenant, digest_type: &digest_type, events: 7, list_host: "lists.example.com" };
            let hostile = Draft { to, from, subject: &subject, text: &text, html: Some(&html), of, ..draft() };
            let made = hostile.compose().unwrap();
            prop_assert_eq!(header_names(&made.bytes), header_names(&draft().compose().unwrap().bytes));
            prop_assert!(made.bytes.is_ascii());
            for line in made.bytes.split_inclusive(|byte| *byte == b'\n') {
                prop_assert!(line.ends_with(b"\r\n") && line.len() <= 1000);
                prop_assert!(!line[..line.len() - 2].contains(&b'\r'));
            }
            let parsed = MessageParser::default().parse(&made.bytes).unwrap();
            prop_assert_eq!(parsed.parts.len(), 3);
            prop_assert_eq!(&hostile.compose().unwrap().bytes, &made.bytes);
        }

        #[test]
        fn no_injected_line_becomes_a_header(prefix in any::<String>(), eol in "[\r\n\u{85}\u{2028}\u{b}\u{c}]{1,3}") {
            let hostile = format!("{prefix}{eol}Bcc: eve@example.org{eol}{eol}body");
            let to = Person { name: &hostile, ..draft().to };
            let made = Draft { to, subject: &hostile, ..draft() }.compose().unwrap();
            let parsed = MessageParser::default().parse(&made.bytes).unwrap();
            prop_assert!(parsed.bcc().is_none());
        }

        #[test]
        fn text_that_looks_encoded_is_read_as_it_is_shown(inside in "[a-zA-Z0-9=?]{0,20}") {
            let subject = format!("=?utf-8?q?{inside}=0D=0ABcc?=");
            let to = Person { name: &subject, ..draft().to };
            let made = Draft { to, subject: &subject, ..draft() }.compose().unwrap();
            let parsed = MessageParser::default().parse(&made.bytes).unwrap();
            prop_assert_eq!(parsed.subject(), Some(made.subject.as_str()));
            prop_assert!(made.subject.contains("Bcc"));
        }

        #[test]
        fn any_address_is_composed_or_refused(address in any::<String>(), local in "\\PC{1,20}") {
            for address in [address, format!("{local}@example.com"), format!("ann@{local}.example")] {
                let to = Person { name: "Ann", address: &address };
                if let Ok(made) = (Draft { to, ..draft() }).compose() {
                    prop_assert!(!made.envelope_to.chars().any(char::is_control));
                    prop_assert_eq!(header_names(&made.bytes).len(), header_names(&draft().compose().unwrap().bytes).len());
                }
            }
        }
    }
}
