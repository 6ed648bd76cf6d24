//! Each sample is sent to its provider's webhook.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::{
    fetch::HttpFetcher,
    webhooks::{
        RelayWebhook,
        hook::{VerifiedRequest, WebhookError},
        ses::CertificateCache,
        tests::secret,
    },
};

fn headers(sample: &Sample) -> HeaderMap {
    let header =
        |(name, value): &(&'static str, String)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    sample.headers.iter().map(header).collect()
}

#[tokio::test]
async fn each_sample_is_read_as_the_kind_that_it_names() {
    let (message, now) = (Uuid::from_u128(7), Timestamp::now());
    for provider in Provider::ALL {
        let Some(right) = secret(provider, "one") else { continue };
        let mut hook = RelayWebhook::new(provider);
        hook.add_secret(&right).unwrap();
        // The second secret is one that is going to be replaced.
        let samples = samples(provider, Some(&format!("{right} another")), message, now);
        let has = |(name, ..): &(&str, ReportKind, bool)| samples.iter().any(|sample| sample.name == *name);
        let missing: Vec<_> = EVENTS.iter().filter(|event| !has(event)).map(|(name, ..)| *name).collect();
        let known_to_miss: &[&str] = match provider {
            Provider::Postmark | Provider::Brevo | Provider::SparkPost => &["never sent"],
            Provider::Resend => &["unsubscribed"],
            _ => &[],
        };
        assert_eq!((samples.len(), &*missing), (14 - known_to_miss.len(), known_to_miss), "{provider:?}");
        for sample in samples {
            let certificates = CertificateCache::new(HttpFetcher::new());
            let read = hook.verify_request(&headers(&sample), &sample.body.clone().into(), &certificates, now).await;
            let name = format!("{} {}", provider.name(), sample.name);
            match (sample.expected, read) {
                (Expected::Event(kind), Ok(VerifiedRequest::Events(parsed, _))) => {
                    assert_eq!((parsed.events.len(), parsed.unreadable), (1, 0), "{name}");
                    let event = &parsed.events[0];
                    assert_eq!(event.report.kind, kind, "{name}");
                    assert_eq!(event.report.never_sent, sample.name == "never sent", "{name}");
                    assert_eq!(event.of, [tidings_model::delivery_events::MessageReference::Id(message)], "{name}");
                }
                (Expected::DeadLetter, Ok(VerifiedRequest::Events(parsed, _))) => {
                    assert_eq!((parsed.events.len(), parsed.unusable.len()), (0, 1), "{name}");
                }
                (Expected::Refused, Err(WebhookError::Refused(_))) => {}
                _ => panic!("{name}"),
            }
        }
    }
}

#[test]
fn without_a_secret_of_ours_only_an_unsigned_sample_is_left() {
    for (provider, secret) in [(Provider::Ses, None), (Provider::SendGrid, Some("MFkw")), (Provider::Mailgun, None)] {
        let samples = samples(provider, secret, Uuid::nil(), Timestamp::now());
        assert_eq!(samples.iter().map(|sample| sample.name).collect::<Vec<_>>(), ["unsigned"]);
    }
}
