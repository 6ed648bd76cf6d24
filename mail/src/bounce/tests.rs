//! A sample of each server, and messages that do harm.

use std::fmt::Write as _;

use include_dir::{Dir, include_dir};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

static SAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/bounce/samples");
const MESSAGE: Uuid = Uuid::from_u128(0x0123_4567_89ab_5def_8123_4567_89ab_cdef);

fn sample(name: &str) -> &'static [u8] {
    SAMPLES.get_file(format!("{name}.eml")).unwrap().contents()
}

/// One line for each report: kind, status, time and diagnostic.
fn said(content: &Content) -> String {
    let Content::Reports(reports) = content else { return format!("{content:?}") };
    let line = |report: &ParsedReport| {
        let status = report.status.map(|status| status.to_string()).unwrap_or_default();
        let at = report.occurred_at.map(|at| at.strftime("%d %H:%M:%S").to_string()).unwrap_or_default();
        let diagnostic: String = report.diagnostic.chars().take(18).collect();
        format!("{}|{status}|{at}|{diagnostic}", report.kind)
    };
    reports.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_server_says_what_happened_in_its_own_way() {
    for (name, expected) in [
        ("postfix-unknown-user", "bounced|5.1.1|23 08:00:05|550 5.1.1 <ann@exa"),
        ("postfix-delayed", "deferred|4.4.1|23 08:00:05|connect to mx.exam"),
        ("postfix-delivered", "delivered|2.0.0|23 08:00:05|delivered to mailb"),
        ("exim-unknown-user", "bounced|5.1.1|23 08:00:05|550 5.1.1 <ann@exa"),
        ("exim-old", "soft bounce||23 08:00:05|"),
        ("exchange-online", "bounced|5.1.10|23 08:00:05|550 5.1.10 RESOLVE"),
        ("exchange-mailbox-full", "soft bounce|5.2.2|23 08:00:05|"),
        ("gmail-unknown-user", "bounced|5.1.1|23 08:00:03|550-5.1.1 The emai"),
        ("sendmail-expired", "soft bounce|4.4.7|28 08:00:01|"),
        ("yahoo-policy", "refused by policy|5.7.9|23 08:00:05|554 5.7.9 Message "),
        ("qmail-unknown-user", "bounced|5.1.1|23 08:00:05|Sorry, no mailbox "),
        ("arf-abuse", "complained||23 08:00:03|"),
        ("microsoft-junk", "complained||23 08:00:05|"),
        ("arf-not-spam", "NoNews"),
        ("relayed", "NoNews"),
        ("out-of-office", "AutoReply"),
        ("challenge", "AutoReply"),
        ("person", "Unrecognized"),
    ] {
        let returned = read(sample(name));
        assert_eq!(said(&returned.content), expected, "{name}");
        assert!(!returned.tokens.is_empty() || name == "arf-not-spam", "{name}");
        assert!(returned.tokens.iter().all(|token| token.message() == MESSAGE), "{name}");
    }
}

#[test]
fn the_returned_message_names_itself() {
    for name in ["postfix-unknown-user", "postfix-delayed", "gmail-unknown-user", "arf-abuse", "microsoft-junk"] {
        let Returned { message, message_id, .. } = read(sample(name));
        assert_eq!((message, message_id), (Some(MESSAGE), Some(format!("{MESSAGE}@acme.example"))), "{name}");
    }
}

#[test]
fn a_complaint_without_the_envelope_is_found_by_the_header() {
    let text = String::from_utf8(sample("arf-abuse").to_vec()).unwrap();
    let hides = |line: &&str| !line.starts_with("Return-Path") && !line.starts_with("Original-Mail-From");
    let redacted = text.lines().filter(hides).collect::<Vec<_>>().join("\n");
    let tokens: Vec<_> = read(redacted.as_bytes()).tokens.iter().map(Token::message).collect();
    assert_eq!(tokens, [MESSAGE]);
}

#[test]
fn nested_messages_and_parts_are_bounded() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(100_000);
    assert_eq!(read(nested.as_bytes()), Returned::default());
    let parts = (0..100_000).fold("Content-Type: multipart/digest; boundary=a\n\n".to_owned(), |mut parts, _| {
        let _ = write!(parts, "--a\nContent-Type: multipart/digest; boundary=a\n\n");
        parts
    });
    assert_eq!(read(parts.as_bytes()), Returned::default());
    let just = "Content-Type: message/rfc822\n\n".repeat(PARTS);
    assert_eq!(read(just.as_bytes()).content, Content::Unrecognized);
}

#[test]
fn many_recipients_make_few_reports() {
    let group = "\nFinal-Recipient: rfc822; ann@example.net\nAction: failed\nStatus: 5.1.1\n";
    let text = String::from_utf8(sample("postfix-unknown-user").to_vec()).unwrap();
    let many = text.replacen("\nFinal-Recipient", &format!("{}\nFinal-Recipient", group.repeat(1_000)), 1);
    let Content::Reports(reports) = read(many.as_bytes()).content else { panic!("no reports") };
    assert_eq!(reports.len(), REPORTS);
}

proptest! {
    #[test]
    fn no_cut_and_no_changed_byte_makes_it_panic(
        which in 0..64_usize, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let files: Vec<_> = SAMPLES.files().collect();
        let mut bytes = files[which % files.len()].contents().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        let _ = read(&bytes);
    }
}
