//! Samples from each server, and malicious messages.

use std::fmt::Write as _;

use include_dir::{Dir, include_dir};
use proptest::prelude::*;

use super::*;

static SAMPLES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/bounce/samples");
static RECORDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/src/bounce/recorded");
const MESSAGE: Uuid = Uuid::from_u128(0x0123_4567_89ab_5def_8123_4567_89ab_cdef);

fn sample(name: &str) -> &'static [u8] {
    SAMPLES.get_file(format!("{name}.eml")).unwrap().contents()
}

/// One line per report: kind, status, time and diagnostic.
fn said(content: &ReturnedContent) -> String {
    let ReturnedContent::Reports(reports) = content else { return format!("{content:?}") };
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
        ("exim-old", "soft bounce||23 08:00:05|Unrouteable addres"),
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
        let returned = parse_bounce(sample(name));
        assert_eq!(said(&returned.content), expected, "{name}");
        assert!(!returned.tokens.is_empty() || name == "arf-not-spam", "{name}");
        assert!(returned.tokens.iter().all(|token| token.message() == MESSAGE), "{name}");
    }
}

#[test]
fn an_old_exim_that_quotes_the_reply_is_believed_like_others() {
    let text = String::from_utf8(sample("exim-old").to_vec()).unwrap();
    let quoted = "SMTP error from remote mail server after RCPT TO:<ann@example.net>:\n    host mx.example.net [192.0.2.1]: 550 5.1.1 no such user";
    let returned = parse_bounce(text.replace("Unrouteable address", quoted).as_bytes());
    assert_eq!(said(&returned.content), "bounced|5.1.1|23 08:00:05|SMTP error from re");
}

/// Kind and status of each recorded bounce, for the original recipient.
#[test]
fn a_recorded_bounce_is_taken_for_what_its_server_knew() {
    let bounces = [
        ("chasquid-policy", "refused by policy 5.7.1"),
        ("chasquid-unknown", "bounced 5.1.1"),
        ("courier-down", "soft bounce 5.0.0"),
        ("courier-down-delayed", "deferred 4.0.0"),
        ("courier-later", "soft bounce 4.3.0"),
        ("courier-policy", "refused by policy 5.7.1"),
        ("courier-unknown", "bounced 5.1.1"),
        ("debian-vacation", "Unrecognized"),
        ("dovecot-lda-full", "soft bounce 5.2.2"),
        ("dovecot-sieve-vacation", "AutoReply"),
        ("exim-full", "soft bounce 5.2.2"),
        ("exim-later", "soft bounce 4.3.0"),
        ("exim-nobody", "soft bounce 5.0.0"),
        ("exim-plain", "soft bounce 5.0.0"),
        ("exim-policy", "refused by policy 5.7.1"),
        ("exim-unknown", "bounced 5.1.1"),
        ("haraka-bad554", "soft bounce 5.0.0"),
        ("haraka-full4", "soft bounce 4.2.2"),
        ("haraka-policy", "refused by policy 5.7.1"),
        ("haraka-unknown", "bounced 5.1.1"),
        // Its report has neither a status nor the reply.
        ("opensmtpd-policy", "soft bounce 5.0.0"),
        ("opensmtpd-unknown", "soft bounce 5.0.0"),
        ("postfix-down", "soft bounce 4.4.1"),
        ("postfix-down-delayed", "deferred 4.4.1"),
        ("postfix-full", "soft bounce 5.2.2"),
        ("postfix-o365", "soft bounce 5.4.1"),
        ("postfix-plain", "soft bounce 5.0.0"),
        ("postfix-policy", "refused by policy 5.7.1"),
        // A member of the group is gone, and not the group.
        ("postfix-twook", "soft bounce 5.1.1"),
        ("postfix-unknown", "bounced 5.1.1"),
        ("sendmail-down", "soft bounce 4.4.7"),
        ("sendmail-down-delayed", "deferred 4.4.1"),
        ("sendmail-full", "soft bounce 5.2.2"),
        // Labelled 5.1.1.
        ("sendmail-policy", "refused by policy 5.7.1"),
        ("sendmail-unknown", "bounced 5.1.1"),
    ];
    for (name, expected) in bounces {
        let bytes = RECORDED.get_file(format!("{name}.eml")).unwrap().contents();
        let returned = parse_bounce(bytes);
        let message = MessageParser::default().parse(bytes).unwrap();
        let original = find_original(&message);
        let to = original.as_ref().and_then(|original| original.to()?.first()?.address()).unwrap_or_default();
        let said = match &returned.content {
            ReturnedContent::Reports(reports) => {
                let [report] = &reports[..] else { panic!("{name}: {reports:?}") };
                format!("{} {}", report.kind.for_recipient(report.recipient.as_deref(), to), report.status.unwrap())
            }
            other => format!("{other:?}"),
        };
        assert_eq!(said, expected, "{name}");
        assert!(returned.tokens.iter().all(|token| token.message() == MESSAGE), "{name}");
        assert!(!returned.tokens.is_empty(), "{name}");
    }
    assert_eq!(
        RECORDED.files().filter(|file| file.path().extension().is_some_and(|is| is == "eml")).count(),
        bounces.len()
    );
}

/// sendmail reports both members of a group under the group's address.
#[test]
fn a_member_of_a_group_is_not_the_group() {
    let text = String::from_utf8(sample("postfix-unknown-user").to_vec()).unwrap();
    for (fields, expected) in [
        ("Final-Recipient: rfc822; two@example.net\nX-Actual-Recipient: rfc822; gone@example.org", "soft bounce"),
        ("Final-Recipient: rfc822; gone@example.org\nOriginal-Recipient: rfc822; two@example.net", "soft bounce"),
        ("Final-Recipient: rfc822; Two@Example.Net", "bounced"),
        ("Final-Recipient: X-Unix; gone\nOriginal-Recipient: rfc822; two@example.net", "bounced"),
        ("Original-Recipient: rfc822; two@example.net", "bounced"),
    ] {
        let ours = "Final-Recipient: rfc822; ann@example.net\nOriginal-Recipient: rfc822;ann@example.net";
        assert!(text.contains(ours));
        let ReturnedContent::Reports(reports) = parse_bounce(text.replace(ours, fields).as_bytes()).content else {
            panic!("no reports")
        };
        let kinds = reports
            .iter()
            .map(|report| report.kind.for_recipient(report.recipient.as_deref(), "two@example.net").to_string());
        assert_eq!(kinds.collect::<Vec<_>>(), [expected], "{fields}");
    }
}

#[test]
fn the_returned_message_names_itself() {
    for name in ["postfix-unknown-user", "postfix-delayed", "gmail-unknown-user", "arf-abuse", "microsoft-junk"] {
        let ReturnedMessage { message, message_id, .. } = parse_bounce(sample(name));
        assert_eq!((message, message_id), (Some(MESSAGE), Some(format!("{MESSAGE}@acme.example"))), "{name}");
    }
}

#[test]
fn a_complaint_without_the_envelope_is_found_by_the_header() {
    let text = String::from_utf8(sample("arf-abuse").to_vec()).unwrap();
    let hides = |line: &&str| !line.starts_with("Return-Path") && !line.starts_with("Original-Mail-From");
    let redacted = text.lines().filter(hides).collect::<Vec<_>>().join("\n");
    let tokens: Vec<_> = parse_bounce(redacted.as_bytes()).tokens.iter().map(EmailToken::message).collect();
    assert_eq!(tokens, [MESSAGE]);
}

#[test]
fn nested_messages_and_parts_are_bounded() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(100_000);
    assert_eq!(parse_bounce(nested.as_bytes()), ReturnedMessage::default());
    let parts = (0..100_000).fold("Content-Type: multipart/digest; boundary=a\n\n".to_owned(), |mut parts, _| {
        let _ = write!(parts, "--a\nContent-Type: multipart/digest; boundary=a\n\n");
        parts
    });
    assert_eq!(parse_bounce(parts.as_bytes()), ReturnedMessage::default());
    let just = "Content-Type: message/rfc822\n\n".repeat(PARTS);
    assert_eq!(parse_bounce(just.as_bytes()).content, ReturnedContent::Unrecognized);
}

#[test]
fn many_recipients_make_few_reports() {
    let group = "\nFinal-Recipient: rfc822; ann@example.net\nAction: failed\nStatus: 5.1.1\n";
    let text = String::from_utf8(sample("postfix-unknown-user").to_vec()).unwrap();
    let many = text.replacen("\nFinal-Recipient", &format!("{}\nFinal-Recipient", group.repeat(1_000)), 1);
    let ReturnedContent::Reports(reports) = parse_bounce(many.as_bytes()).content else { panic!("no reports") };
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
        let _ = parse_bounce(&bytes);
    }
}

#[test]
fn the_action_and_the_status_decide() {
    use BounceKind::{Hard, Policy, Soft};
    for (action, status, expected) in [
        ("failed", "5.1.1", Some(ReportKind::Bounced(Hard))),
        ("failed", "5.1.10", Some(ReportKind::Bounced(Hard))),
        ("failed", "5.1.2", Some(ReportKind::Bounced(Soft))),
        ("failed", "5.2.2", Some(ReportKind::Bounced(Soft))),
        ("failed", "4.4.7", Some(ReportKind::Bounced(Soft))),
        ("failed", "5.0.0", Some(ReportKind::Bounced(Soft))),
        ("failed", "5.4.4", Some(ReportKind::Bounced(Soft))),
        ("failed", "5.7.1", Some(ReportKind::Bounced(Policy))),
        ("failed", "5.3.4", Some(ReportKind::Bounced(Policy))),
        ("failed", "", Some(ReportKind::Bounced(Soft))),
        ("delayed", "4.4.1", Some(ReportKind::Deferred)),
        ("delivered", "2.0.0", Some(ReportKind::Delivered)),
        ("relayed", "2.0.0", None),
        ("expanded", "2.0.0", None),
        ("", "5.1.1", Some(ReportKind::Bounced(Hard))),
        ("", "4.4.1", Some(ReportKind::Deferred)),
        ("", "", None),
        ("eaten", "5.1.1", None),
    ] {
        assert_eq!(kind(action, status.parse().ok(), ""), expected, "{action} {status}");
    }
}

#[test]
fn each_address_has_the_lines_below_it() {
    let text = "The following address(es) failed:\r\n\r\n  ann@example.net\r\n    SMTP error after RCPT TO:<ann@example.net>:\r\n    \
                host mx.example.net [192.0.2.1]: 550 5.1.1 no\r\n      such user\r\n  Bo@example.net:\r\n    mailbox is full\r\n\r\n\
                ------ This is a copy of the message. ------\r\n\r\n  cy@example.net\r\n    550 5.1.1 forged\r\n";
    for (address, said) in [
        (
            "ann@example.net",
            "SMTP error after RCPT TO:<ann@example.net>: host mx.example.net [192.0.2.1]: 550 5.1.1 no such user",
        ),
        ("bo@example.net", "mailbox is full"),
        ("cy@example.net", ""),
    ] {
        assert_eq!(said_of(text, address), said);
    }
}
