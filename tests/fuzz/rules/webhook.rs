//! A webhook's body: read without harm, in bounded numbers, and fit to be recorded; never believed without a signature.

use jiff::Timestamp;
use tidings_gateway::webhooks::{
    Credentials, Parsed, Secret, generic, mailgun, mailjet, postmark, resend, sendgrid, ses,
};
use tidings_model::delivery_events::Unusable;

use super::presentable::assert_presentable;

/// Long after the events of the corpus.
const NOW: Timestamp = Timestamp::MAX;
/// Characters of a reason and of a head, with the room that `<address>` takes.
const REASON: usize = 4 * 300 + 20;
const HEAD: usize = 4 * 65_536 + 20;

fn keeps_the_rules(parsed: Parsed) {
    assert!(parsed.unusable.len() <= 100 && parsed.unusable.len() <= parsed.unreadable);
    for Unusable { reason, head, sha256, .. } in &parsed.unusable {
        assert_presentable("a reason", reason, REASON);
        assert_presentable("a head", head, HEAD);
        assert_eq!(sha256.len(), 64);
    }
    for event in parsed.events {
        assert!(!event.of.is_empty());
        assert_presentable("a diagnostic", &event.report.diagnostic, REASON);
        assert!(event.report.url.is_none_or(|url| !url.contains(char::is_control)));
    }
}

/// Envelopes of SNS, and the events in them.
///
/// # Panics
/// Where a rule is broken.
pub fn ses(bytes: &[u8]) {
    let topic = ses::Topic::parse("arn:aws:sns:eu-west-1:123456789012:tidings-events").expect("a topic");
    if let Ok(envelope) = ses::read(&axum::http::HeaderMap::new(), bytes)
        && let Ok(address) = envelope.certificate(&topic)
    {
        assert_eq!(address.host, "sns.eu-west-1.amazonaws.com");
        let digits =
            address.path.strip_prefix("/SimpleNotificationService-").and_then(|name| name.strip_suffix(".pem"));
        assert!(digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
    keeps_the_rules(ses::parse(&String::from_utf8_lossy(bytes), Some("id"), NOW));
}

/// # Panics
/// Where a rule is broken.
pub fn sendgrid(bytes: &[u8]) {
    keeps_the_rules(sendgrid::parse(bytes, NOW));
}

/// Tokens too, as they stand in the body.
///
/// # Panics
/// Where a rule is broken.
pub fn mailgun(bytes: &[u8]) {
    let key = mailgun::SigningKey::parse("a key that no input has").expect("a key");
    assert!(mailgun::verify(bytes, &[key], NOW).is_err());
    keeps_the_rules(mailgun::parse(bytes, NOW));
}

/// Credentials too: the input stands in the header.
///
/// # Panics
/// Where a rule is broken.
pub fn postmark(bytes: &[u8]) {
    if let Ok(value) = axum::http::HeaderValue::from_bytes(bytes) {
        let headers = [(axum::http::header::AUTHORIZATION, value)].into_iter().collect();
        assert!(postmark::verify(&headers, &[Credentials::new("a user", "that no input has")]).is_err());
    }
    keeps_the_rules(postmark::parse(bytes, NOW));
}

/// Signatures too: the input stands in the headers.
///
/// # Panics
/// Where a rule is broken.
pub fn resend(bytes: &[u8]) {
    if let Ok(value) = axum::http::HeaderValue::from_bytes(bytes) {
        let names = ["svix-id", "svix-timestamp", "svix-signature"].map(axum::http::HeaderName::from_static);
        let headers = names.into_iter().map(|name| (name, value.clone())).collect();
        let secret = Secret::parse("whsec_dGlkaW5ncyBmdXp6aW5nIG9ubHk=").expect("a secret");
        assert!(resend::verify(&headers, bytes, &[secret], NOW).is_err());
    }
    keeps_the_rules(resend::parse(bytes, Some("id"), NOW));
}

/// # Panics
/// Where a rule is broken.
pub fn mailjet(bytes: &[u8]) {
    keeps_the_rules(mailjet::parse(bytes, NOW));
}

/// # Panics
/// Where a rule is broken.
pub fn generic(bytes: &[u8]) {
    keeps_the_rules(generic::parse(bytes, NOW));
}
