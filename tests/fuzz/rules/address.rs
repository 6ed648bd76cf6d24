//! Addresses: what can be made can be sent.

use jiff::Timestamp;
use tidings_mail::mime::{MessageDraft, MessageKind, MessageParty};
use tidings_model::{EmailAddress, settings::StreamName};
use uuid::Uuid;

use super::lines::lines;

/// Each line is an address.
///
/// # Panics
/// Where a rule is broken.
pub fn address(bytes: &[u8]) {
    for line in lines(bytes) {
        one(&line);
    }
}

fn one(written: &str) {
    let folded = EmailAddress::normalize_address(written);
    assert_eq!(EmailAddress::normalize_address(&folded), folded, "{written:?}");
    let Ok(address) = written.parse::<EmailAddress>() else { return };
    let composed = address.as_str();
    assert_eq!(composed.parse().map(|again: EmailAddress| again.to_string()).as_deref(), Ok(composed), "{written:?}");
    assert!(composed.len() <= 254 && address.local_part().len() <= 64, "{composed}");
    assert!(!composed.contains(char::is_control) && address.domain().is_ascii(), "{composed:?}");
    let party = MessageParty { name: "Ann", address: &address };
    let draft = MessageDraft {
        from: party,
        to: party,
        reply_to: Some(&address),
        subject: "S",
        html: None,
        text: "T",
        id: Uuid::nil(),
        of: MessageKind::Single { tenant: "acme", stream: StreamName::Transactional },
        date: Timestamp::UNIX_EPOCH,
        message_domain: "acme.example",
        unsubscribe: None,
        token: None,
        attachments: &[],
    };
    let made = draft.compose().unwrap_or_else(|error| panic!("{composed}: {error}"));
    assert_eq!(made.envelope_to, composed);
    let head = format!("From: Ann <{composed}>\r\nTo: Ann <{composed}>\r\nSubject: S\r\n");
    assert!(made.bytes.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&made.bytes));
}
