//! A webhook's body: read without harm, in bounded numbers, and fit to be recorded; never believed without a signature.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use tidings_gateway::webhooks::{self, ParsedBody, ses};
use tidings_model::{Provider, delivery_events::UnusablePart};

use super::presentable::assert_presentable;

/// Long after the events of the corpus.
const NOW: Timestamp = Timestamp::MAX;
/// Characters of a reason and of a head, with the room that `<address>` takes.
const REASON: usize = 4 * 300 + 20;
const HEAD: usize = 4 * 65_536 + 20;

fn keeps_the_rules(parsed: ParsedBody) {
    assert!(parsed.unusable.len() <= 100 && parsed.unusable.len() <= parsed.unreadable);
    for UnusablePart { reason, head, sha256, .. } in &parsed.unusable {
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

/// Every provider reads the input: as a body, and as the header that proves a request.
///
/// # Panics
/// Where a rule is broken.
pub fn webhook(bytes: &[u8]) {
    for provider in Provider::ALL {
        is_not_authentic(provider, bytes);
        keeps_the_rules(webhooks::webhook_for(provider).parse(bytes, Some("id"), NOW));
    }
    let topic = ses::SnsTopic::parse("arn:aws:sns:eu-west-1:123456789012:tidings-events").expect("a topic");
    if let Ok(envelope) = ses::parse_envelope(&HeaderMap::new(), bytes)
        && let Ok(address) = envelope.certificate_url(&topic)
    {
        assert_eq!(address.host, "sns.eu-west-1.amazonaws.com");
        let digits =
            address.path.strip_prefix("/SimpleNotificationService-").and_then(|name| name.strip_suffix(".pem"));
        assert!(digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
}

/// Nobody has the secret of this relay.
fn is_not_authentic(provider: Provider, bytes: &[u8]) {
    let Some(none) = webhooks::webhook_for(provider).empty_secrets() else { return };
    // SendGrid's has a private key.
    let secrets = none.with_secret(none.wrong_secret()).unwrap_or(none);
    let headers = HeaderValue::from_bytes(bytes).map(|value| {
        let names = [
            "authorization",
            "svix-id",
            "svix-timestamp",
            "svix-signature",
            "x-twilio-email-event-webhook-signature",
            "x-twilio-email-event-webhook-timestamp",
        ];
        names.map(|name| (HeaderName::from_static(name), value.clone())).into_iter().collect()
    });
    assert!(secrets.verify(&headers.unwrap_or_default(), bytes, NOW).is_err(), "{provider:?}");
}
