//! Parses messages with an independent parser.

use std::sync::LazyLock;

use mail_parser::{MessageParser, MimeHeaders as _};
use proptest::prelude::*;

use super::*;

fn address(text: &str) -> &'static EmailAddress {
    Box::leak(Box::new(text.parse().unwrap()))
}

fn draft() -> MessageDraft<'static> {
    static FROM: LazyLock<EmailAddress> = LazyLock::new(|| "digest@mail.example.com".parse().unwrap());
    static TO: LazyLock<EmailAddress> = LazyLock::new(|| "ann@example.net".parse().unwrap());
    MessageDraft {
        from: MessageParty { name: "Acme", address: &FROM },
        to: MessageParty { name: "Ann", address: &TO },
        reply_to: None,
        subject: "3 new comments",
        html: Some("<p>Three new comments</p>\n"),
        text: "Three new comments\n",
        id: Uuid::from_u128(0x0123_4567_89ab_5def_8123_4567_89ab_cdef),
        of: MessageKind::Digest {
            tenant: "acme",
            digest_type: "activity",
            events: 7,
            list_host: "lists.example.com",
            threading: ThreadPosition::Alone,
        },
        date: "2026-03-02T08:00:00Z".parse().unwrap(),
        message_domain: "mail.example.com",
        unsubscribe: None,
        token: None,
        attachments: &[],
    }
}

#[test]
fn a_single_message_has_no_list_id_and_may_be_plain_text() {
    let of = MessageKind::Single { tenant: "acme", stream: StreamName::Transactional };
    let made = MessageDraft { of, html: None, ..draft() }.compose().unwrap();
    let parsed = MessageParser::default().parse(&made.bytes).unwrap();
    assert_eq!(parsed.body_text(0).unwrap().trim_end(), "Three new comments");
    assert_eq!((parsed.parts.len(), parsed.header_raw("List-Id")), (1, None));
    let headers = header_names(&made.bytes);
    assert!(headers.contains(&"X-Tidings-Message".to_owned()), "{headers:?}");
    assert!(!headers.contains(&"X-Tidings-Events".to_owned()), "{headers:?}");
}

#[test]
fn a_message_offers_the_ways_to_unsubscribe_in_one_header() {
    let url = format!("https://mail.example.com/u/{}", "x".repeat(850));
    for (mailto, expected) in [
        (None, format!("<{url}>")),
        (
            Some("mailto:bounce+abc@example.com?subject=unsubscribe"),
            format!("<{url}>, <mailto:bounce+abc@example.com?subject=unsubscribe>"),
        ),
    ] {
        let made =
            MessageDraft { unsubscribe: Some(UnsubscribeUris { url: &url, mailto }), ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        let raw = |name: &'static str| {
            parsed.header_raw(name).unwrap().split_ascii_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(raw("List-Unsubscribe"), expected);
        assert_eq!(raw("List-Unsubscribe-Post"), "List-Unsubscribe=One-Click");
        assert!(made.bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= 999));
        let once = header_names(&made.bytes).into_iter().filter(|name| name.starts_with("List-Unsubscribe")).count();
        assert_eq!(once, 2);
    }
    let url = "https://a.example/\r\nBcc: b";
    assert!(MessageDraft { unsubscribe: Some(UnsubscribeUris { url, mailto: None }), ..draft() }.compose().is_err());
}

#[test]
fn attachments_come_after_the_body_unchanged() {
    let file = |name: &str, media_type: &str, bytes: &[u8]| Attachment {
        name: name.into(),
        media_type: media_type.into(),
        bytes: bytes.to_vec(),
    };
    let every_byte: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let boundary = format!("--=_m{0}\r\n--=_{0}", draft().id.simple());
    let files = [
        file("invoice 812.pdf", "application/pdf", &every_byte),
        file("Grüße 🎉.html", "text/html; charset=utf-8", b"<p>not the body</p>"),
        file("empty.bin", "application/octet-stream", b""),
        file("trap.txt", "text/plain", boundary.as_bytes()),
    ];
    for html in [Some("<p>Three new comments</p>\n"), None] {
        let made = MessageDraft { html, attachments: &files, ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        assert_eq!(parsed.body_text(0).unwrap().trim_end(), "Three new comments");
        let body = MessageBody::from_message(&made.bytes).unwrap();
        assert_eq!(matches!(&body, MessageBody::Html(html) if html.contains("Three new")), html.is_some(), "{body:?}");
        let read = parsed.attachments().map(|part| file(part.attachment_name().unwrap(), "", part.contents()));
        let read: Vec<_> = read.collect();
        assert!(read.len() == files.len());
        for (read, file) in read.iter().zip(&files) {
            assert!((&read.name, &read.bytes) == (&file.name, &file.bytes), "{}", file.name);
        }
        assert!(made.bytes.is_ascii() && made.bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= 999));
    }
}

#[test]
fn a_name_of_a_file_loses_what_reorders_it() {
    let files = [Attachment { name: "x\u{202e}gnp.exe".into(), media_type: "image/png".into(), bytes: vec![1] }];
    let made = MessageDraft { attachments: &files, ..draft() }.compose().unwrap();
    let parsed = MessageParser::default().parse(&made.bytes).unwrap();
    assert_eq!(parsed.attachments().next().unwrap().attachment_name(), Some("xgnp.exe"));
}

#[test]
fn an_attachment_with_a_hostile_name_or_type_is_refused() {
    for (name, media_type) in [
        ("", "application/pdf"),
        ("../a.pdf", "application/pdf"),
        ("a\".pdf", "application/pdf"),
        ("a\r\nBcc: b", "application/pdf"),
        ("a.eml", "message/rfc822"),
        ("a.eml", "Multipart/mixed"),
        ("a.pdf", "pdf"),
        ("a.pdf", "application/pdf\r\nBcc: b"),
        ("a.pdf", ""),
    ] {
        let files = [Attachment { name: name.into(), media_type: media_type.into(), bytes: vec![1] }];
        let error = MessageDraft { attachments: &files, ..draft() }.compose().err();
        assert!(
            error.is_some_and(|error| error.to_string().starts_with("message: attachment has")),
            "{name} {media_type}"
        );
    }
}

#[test]
fn a_token_is_a_header_of_its_own() {
    let parsed = |made: &ComposedMessage| {
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        parsed.header_raw(TOKEN_HEADER).map(|token| token.trim().to_owned())
    };
    assert_eq!(parsed(&MessageDraft { token: Some("abc"), ..draft() }.compose().unwrap()).as_deref(), Some("abc"));
    assert_eq!(parsed(&draft().compose().unwrap()), None);
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
        let to = MessageParty { name, ..draft().to };
        let html = format!("<p>{body}</p>");
        let made = MessageDraft { to, subject, text: body, html: Some(&html), ..draft() }.compose().unwrap();
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
    let made = MessageDraft { reply_to: Some(address("help@example.com")), ..draft() }.compose().unwrap();
    let parsed = MessageParser::default().parse(&made.bytes).unwrap();
    let raw = |name: &'static str| parsed.header_raw(name).unwrap_or_default().trim();
    assert_eq!(parsed.message_id(), Some(made.message_id.as_str()));
    assert_eq!(parsed.date().unwrap().to_rfc3339(), "2026-03-02T08:00:00Z");
    assert_eq!(parsed.reply_to().unwrap().first().unwrap().address(), Some("help@example.com"));
    assert_eq!(raw("List-Id"), "<activity.acme.lists.example.com>");
    assert_eq!(raw("Auto-Submitted"), "auto-generated");
    assert_eq!(raw("X-Auto-Response-Suppress"), "OOF, AutoReply");
    assert_eq!(raw("X-Tidings-Message"), "01234567-89ab-5def-8123-456789abcdef");
    assert!(raw("Feedback-ID").starts_with("activity:") && raw("Feedback-ID").ends_with(":digest:tidings"));
    assert!(!raw("Feedback-ID").contains("acme"));
}

fn placed(threading: ThreadPosition<'static>) -> MessageDraft<'static> {
    let of = MessageKind::Digest {
        tenant: "acme",
        digest_type: "alerts",
        events: 1,
        list_host: "lists.example.com",
        threading,
    };
    MessageDraft { of, ..draft() }
}

#[test]
fn a_digest_answers_the_first_of_its_thread_or_stands_alone() {
    let id = "01234567-89ab-5def-8123-456789abcdef";
    let host = format!("{}.example.com", ["a".repeat(60), "b".repeat(60), "c".repeat(60), "d".repeat(50)].join("."));
    let long: &'static str = format!("{id}@{host}").leak();
    for (threading, reference, apart) in [
        (ThreadPosition::Alone, None, Some(id)),
        (ThreadPosition::First, None, None),
        (ThreadPosition::Reply("first@mail.example.com"), Some("<first@mail.example.com>".to_owned()), None),
        (ThreadPosition::Reply(long), Some(format!("<{long}>")), None),
    ] {
        let made = placed(threading).compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        let raw = |name: &'static str| parsed.header_raw(name).map(|value| value.trim().to_owned());
        assert_eq!((raw("In-Reply-To"), raw("References")), (reference.clone(), reference), "{threading:?}");
        assert_eq!(raw("X-Entity-Ref-ID").as_deref(), apart, "{threading:?}");
    }
}

#[test]
fn a_message_id_that_ends_its_header_is_refused() {
    for first in ["a@example.com>\r\nBcc: b", "a@example.com b", "<a@example.com>"] {
        assert!(placed(ThreadPosition::Reply(first)).compose().is_err(), "{first}");
    }
}

#[test]
fn a_host_that_no_header_can_carry_is_refused() {
    let of = MessageKind::Digest {
        tenant: "acme",
        digest_type: "activity",
        events: 7,
        list_host: "a\r\nBcc: b",
        threading: ThreadPosition::Alone,
    };
    assert!(MessageDraft { of, ..draft() }.compose().is_err());
    assert!(MessageDraft { message_domain: "", ..draft() }.compose().is_err());
}

#[test]
fn header_and_envelope_have_the_same_address_in_ascii_and_in_quotes() {
    for (written, composed) in [
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("hanako.@docomo.ne.jp", "\"hanako.\"@docomo.ne.jp"),
        ("\"john  smith \"@example.net", "\"john  smith \"@example.net"),
        ("\"@\"@example.net", "\"@\"@example.net"),
    ] {
        for name in ["", "Ann"] {
            let party = MessageParty { name, address: address(written) };
            let made =
                MessageDraft { from: party, to: party, reply_to: Some(party.address), ..draft() }.compose().unwrap();
            assert_eq!(made.envelope_to, composed);
            assert!(made.bytes.is_ascii());
            let text = String::from_utf8(made.bytes).unwrap();
            let expected = if name.is_empty() { composed.to_owned() } else { format!("Ann <{composed}>") };
            assert!(text.starts_with(&format!("From: {expected}\r\nTo: {expected}\r\n")), "{text}");
            assert!(text.contains(&format!("\r\nReply-To: {composed}\r\n")), "{text}");
        }
    }
}

proptest! {
    #[test]
    fn no_string_adds_a_header_or_a_part(
        name in any::<String>(), subject in any::<String>(), text in any::<String>(), html in any::<String>(),
        tenant in any::<String>(), digest_type in any::<String>(),
    ) {
        let to = MessageParty { name: &name, ..draft().to };
        let from = MessageParty { name: &subject, ..draft().from };
        let of = MessageKind::Digest { tenant: &tenant, digest_type: &digest_type, events: 7, list_host: "lists.example.com", threading: ThreadPosition::Alone };
        let hostile = MessageDraft { to, from, subject: &subject, text: &text, html: Some(&html), of, ..draft() };
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
        let to = MessageParty { name: &hostile, ..draft().to };
        let made = MessageDraft { to, subject: &hostile, ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        prop_assert!(parsed.bcc().is_none());
    }

    #[test]
    fn text_that_looks_encoded_is_read_as_it_is_shown(inside in "[a-zA-Z0-9=?]{0,20}") {
        let subject = format!("=?utf-8?q?{inside}=0D=0ABcc?=");
        let to = MessageParty { name: &subject, ..draft().to };
        let made = MessageDraft { to, subject: &subject, ..draft() }.compose().unwrap();
        let parsed = MessageParser::default().parse(&made.bytes).unwrap();
        prop_assert_eq!(parsed.subject(), Some(made.subject.as_str()));
        prop_assert!(made.subject.contains("Bcc"));
    }

    #[test]
    fn any_address_that_was_made_is_composed(text in any::<String>(), local in "\\PC{1,20}") {
        for text in [text, format!("{local}@example.com"), format!("{local:?}@example.com"), format!("ann@{local}.example")] {
            let Ok(address) = text.parse::<EmailAddress>() else { continue };
            let to = MessageParty { name: "Ann", address: &address };
            let made = MessageDraft { to, reply_to: Some(&address), ..draft() }.compose().unwrap();
            prop_assert_eq!(&made.envelope_to, address.as_str());
            prop_assert_eq!(header_names(&made.bytes).len(), header_names(&draft().compose().unwrap().bytes).len() + 1);
        }
    }
}

#[test]
fn control_characters_become_one_space() {
    assert_eq!(one_line("Ann\r\nBcc: x\u{2028}\0y  ", 99), "Ann Bcc: x y");
    assert_eq!(one_line("Ann Lee", 4), "Ann");
    assert_eq!(one_line("Ann\u{202e}eeL\u{202c}", 99), "AnneeL");
    assert_eq!(one_line("Ann 🇩🇪🇫🇷", 7), "Ann 🇩🇪");
}

#[test]
fn labels_are_dot_atoms_and_keep_ids_apart() {
    assert_eq!(label("activity"), "activity");
    let labels = ["a.b", "a/b", "ab", "AB", "ä", "", " "].map(label);
    for label in &labels {
        assert!(label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'), "{label}");
    }
    let distinct: std::collections::BTreeSet<_> = labels.iter().collect();
    assert_eq!(distinct.len(), labels.len(), "{labels:?}");
}

#[test]
fn a_long_line_breaks_between_attributes_only() {
    let cell = r#"<td align="left" style="color: red; padding: 0 1px"><p class="a b">text of a cell</p></td>"#;
    let broken = short_lines(&cell.repeat(30));
    assert!(broken.lines().all(|line| line.len() <= LINE_BYTES), "{broken}");
    assert_eq!(broken.replace('\n', " "), cell.repeat(30));
    assert!(!broken.contains("color:\nred") && !broken.contains("text\nof"));
    let short = "<p class=\"a\">one</p>\n<p class=\"b\">two</p>\n".repeat(100);
    assert_eq!(short_lines(&short), short);
}

#[test]
fn comments_and_long_values_stay_whole() {
    let link = format!("<a class=\"l\" href=\"https://a.example/{}\">a</a>", "x".repeat(900));
    let comment = format!("<!--[if mso]>{}<![endif]-->", "<td a=\"'\" b>".repeat(90));
    for html in [&link, &comment] {
        let broken = short_lines(html);
        assert_eq!(broken.replace('\n', " "), **html);
    }
    assert_eq!(short_lines(&comment), comment);
}

proptest! {
    #[test]
    fn only_spaces_become_line_ends(html in "[<>\"'a \n=!\\-é]{0,2000}") {
        let broken = short_lines(&html);
        prop_assert_eq!(broken.replace('\n', " "), html.replace('\n', " "));
    }
}
