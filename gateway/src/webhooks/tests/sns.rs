//! SNS envelopes and the URLs in them.

use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

use super::*;
use crate::webhooks::ses::{SnsCertificate, SnsNotice, SnsTopic, SnsUrl};

pub(super) const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:tidings-events";
const NOW: &str = "2026-11-21T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn certificate(vectors: &Value, name: &str) -> SnsCertificate {
    SnsCertificate::parse(text(&vectors["sns"]["certificates"][name]["pem"]).as_bytes()).unwrap()
}

#[test]
fn every_envelope_passes_or_fails_as_it_should() {
    let vectors = vectors();
    for vector in list(&vectors["sns"]["messages"]) {
        let (name, envelope) = (&vector["name"], &vector["envelope"]);
        // A topic of the envelope's own name, so that the signature alone decides.
        let topic = SnsTopic::parse(text(&envelope["TopicArn"])).unwrap();
        let at = text(&envelope["Timestamp"]).parse().unwrap();
        let certificate = certificate(&vectors, text(&vector["cert"]));
        let read = ses::parse_envelope(&HeaderMap::new(), envelope.to_string().as_bytes()).unwrap();
        let url = vectors["sns"]["certificates"][text(&vector["cert"])]["url"].as_str().unwrap();
        assert_eq!(read.certificate_url(&topic).unwrap().to_string(), url, "{name}");
        let verified = read.verify(&topic, &certificate, true, at);
        assert_eq!(verified.is_ok(), vector["valid"] == true, "{name} {verified:?}");
        let version_1 = envelope["SignatureVersion"] == "1";
        let strict = read.verify(&topic, &certificate, false, at);
        assert_eq!(strict.is_ok(), vector["valid"] == true && !version_1, "{name}");
        if let Ok(SnsNotice::Subscription(address)) = verified {
            let token = text(&envelope["Token"]);
            let path = format!(
                "/?Action=ConfirmSubscription&TopicArn=arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Atidings-events&Token={token}"
            );
            assert_eq!(address, SnsUrl { host: "sns.eu-west-1.amazonaws.com".into(), path });
        }
    }
}

#[test]
fn only_addresses_that_we_build_are_those_of_certificates() {
    let vectors = vectors();
    let regions = [
        "arn:aws:sns:us-east-2:123456789012:t",
        "arn:aws-us-gov:sns:us-gov-west-1:123456789012:t",
        "arn:aws-cn:sns:cn-north-1:123456789012:t",
    ]
    .map(|arn| SnsTopic::parse(arn).unwrap());
    for url in list(&vectors["sns"]["cert_urls"]["accept"]) {
        let built: Vec<_> = regions.iter().filter_map(|topic| topic.certificate_url(text(url))).collect();
        assert_eq!(built.iter().map(ToString::to_string).collect::<Vec<_>>(), [text(url)], "of its region only");
    }
    let digits = "7ff5318490ec183fbaddaa2a969abfda";
    let more = [
        format!("https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{}.pem", digits.to_uppercase()),
        format!("https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{digits}0.pem"),
        format!("https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{digits}.pem?"),
        format!("https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{digits}.pem "),
        format!(" https://sns.us-east-2.amazonaws.com/SimpleNotificationService-{digits}.pem"),
        format!("HTTPS://sns.us-east-2.amazonaws.com/SimpleNotificationService-{digits}.pem"),
        format!("https://sns.us-east-2.amazonaws.com./SimpleNotificationService-{digits}.pem"),
        format!("https://sns.us-east-2.amazonaws.com:443/SimpleNotificationService-{digits}.pem"),
        format!("https://sns.us-east-2.amazonaws.com//SimpleNotificationService-{digits}.pem"),
        format!("https://sns.us-east-1.amazonaws.com/SimpleNotificationService-{digits}.pem"),
        format!("https://sns.us-east-2.amazonaws.com.cn/SimpleNotificationService-{digits}.pem"),
        "https://sns.us-east-2.amazonaws.com/SimpleNotificationService-../../../../../../../../../.pem".to_owned(),
    ];
    let rejected = list(&vectors["sns"]["cert_urls"]["reject"]).iter().map(|rejected| text(&rejected[0]).to_owned());
    for url in rejected.chain(more) {
        assert!(regions.iter().all(|topic| topic.certificate_url(&url).is_none()), "{url}");
    }
}

#[test]
fn a_topic_is_one_of_a_region_and_never_a_bucket() {
    for arn in
        [TOPIC, "arn:aws-us-gov:sns:us-gov-east-1:123456789012:a_B-1", "arn:aws:sns:ap-southeast-3:123456789012:t"]
    {
        assert_eq!(SnsTopic::parse(arn).unwrap().arn(), arn);
    }
    for wrong in [
        "",
        "arn:aws:sns:s3:123456789012:t",
        "arn:aws:sns:s3-us-west-2:123456789012:t",
        "arn:aws:sns:eu-west-1.evil.example/:123456789012:t",
        "arn:aws:sns:eu-west-1@evil:123456789012:t",
        "arn:aws:sns:eu--1:123456789012:t",
        "arn:aws:sns:-west-1:123456789012:t",
        "arn:aws:sns:eu-west-:123456789012:t",
        "arn:aws:sns:eu-1:123456789012:t",
        "arn:aws:sns:EU-WEST-1:123456789012:t",
        "arn:aws:sqs:eu-west-1:123456789012:t",
        "arn:aws-iso:sns:eu-west-1:123456789012:t",
        "arn:aws:sns:eu-west-1:12345678901:t",
        "arn:aws:sns:eu-west-1:123456789012:",
        "arn:aws:sns:eu-west-1:123456789012:t:b7f3a1c0-0000-0000-0000-000000000000",
        "arn:aws:sns:eu-west-1:123456789012:t.fifo",
    ] {
        assert!(SnsTopic::parse(wrong).unwrap_err().starts_with("is not the ARN of a topic"), "{wrong}");
    }
}

/// Signs envelopes with the test certificate's key.
pub(super) struct Signer {
    vectors: Value,
    key: RsaKeyPair,
}

impl Signer {
    pub(super) fn new() -> Self {
        let vectors = vectors();
        let pem = text(&vectors["sns"]["certificates"]["synthetic"]["private_key_pkcs8_pem"]);
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
        let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
        Self { vectors, key }
    }

    /// In PEM.
    pub(super) fn certificate(&self) -> String {
        text(&self.vectors["sns"]["certificates"]["synthetic"]["pem"]).to_owned()
    }

    /// Merges `of` into the envelope, and signs the fields that SNS would sign.
    pub(super) fn envelope(&self, of: &Value) -> Value {
        let mut envelope = json!({
            "Type": "Notification", "MessageId": "id", "TopicArn": TOPIC, "Message": "{}", "Timestamp": NOW,
            "SignatureVersion": "2", "SigningCertURL": self.vectors["sns"]["certificates"]["synthetic"]["url"],
        });
        envelope.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        let fields = list(&self.vectors["sns"]["signed_fields_in_order"]).iter();
        let signed: String =
            fields.filter_map(|name| Some(format!("{}\n{}\n", text(name), envelope[text(name)].as_str()?))).collect();
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        envelope["Signature"] = STANDARD.encode(signature).into();
        envelope
    }

    fn refused(&self, of: &Value, sns: &[(&str, &str)], now: Timestamp) -> Option<VerifyError> {
        let topics = [SnsTopic::parse(TOPIC).unwrap()];
        let verified = || {
            let read = ses::parse_envelope(&headers(sns.iter().copied()), self.envelope(of).to_string().as_bytes())?;
            let topic = read.topic(&topics)?;
            read.certificate_url(topic)?;
            read.verify(topic, &certificate(&self.vectors, "synthetic"), false, now).map(drop)
        };
        verified().err()
    }
}

#[test]
fn an_envelope_with_a_right_signature_may_still_be_refused() {
    let signer = Signer::new();
    let refused = |of: Value| signer.refused(&of, &[], now());
    assert_eq!(refused(json!({})), None);
    assert_eq!(
        refused(json!({"Type": "UnsubscribeConfirmation", "Token": "t", "SubscribeURL": "http://169.254.169.254/"})),
        None
    );
    let other = "arn:aws:sns:eu-west-1:999999999999:tidings-events";
    assert_eq!(refused(json!({"TopicArn": other})), Some(VerifyError::Topic));
    assert_eq!(refused(json!({"SignatureVersion": "1"})), Some(VerifyError::Version), "it is not allowed");
    assert_eq!(refused(json!({"SignatureVersion": "02"})), Some(VerifyError::Version));
    assert_eq!(refused(json!({"SigningCertURL": "https://evil.example/a.pem"})), Some(VerifyError::Certificate));
    assert_eq!(refused(json!({"Type": "SubscriptionConfirmation"})), Some(VerifyError::Malformed("the token")));
    assert_eq!(refused(json!({"Type": "Poem"})), Some(VerifyError::Malformed("the type")));
    assert_eq!(refused(json!({"Timestamp": "yesterday"})), Some(VerifyError::Malformed("the timestamp")));
    for (seconds, expected) in
        [(86_400, None), (86_401, Some(VerifyError::Time)), (-86_400, None), (-86_401, Some(VerifyError::Time))]
    {
        assert_eq!(signer.refused(&json!({}), &[], now() + SignedDuration::from_secs(seconds)), expected, "{seconds}");
    }
    for (name, value, expected) in [
        ("x-amz-sns-rawdelivery", "true", Some(VerifyError::Raw)),
        ("x-amz-sns-rawdelivery", "false", None),
        ("x-amz-sns-message-type", "Notification", None),
        ("x-amz-sns-message-type", "SubscriptionConfirmation", Some(VerifyError::Malformed("a header of SNS"))),
        ("x-amz-sns-message-id", "other", Some(VerifyError::Malformed("a header of SNS"))),
    ] {
        assert_eq!(signer.refused(&json!({}), &[(name, value)], now()), expected, "{name} {value}");
    }
}

#[test]
fn a_token_of_a_subscription_cannot_leave_its_place_in_the_address() {
    let signer = Signer::new();
    let envelope = signer.envelope(&json!({
        "Type": "SubscriptionConfirmation", "Token": "a&TopicArn=b#c/../ d", "SubscribeURL": "https://evil.example/",
    }));
    let topic = SnsTopic::parse(TOPIC).unwrap();
    let read = ses::parse_envelope(&HeaderMap::new(), envelope.to_string().as_bytes()).unwrap();
    let notice = read.verify(&topic, &certificate(&signer.vectors, "synthetic"), false, now()).unwrap();
    let SnsNotice::Subscription(SnsUrl { host, path }) = notice else { panic!("{notice:?}") };
    assert_eq!(host, "sns.eu-west-1.amazonaws.com");
    assert!(path.ends_with("&Token=a%26TopicArn%3Db%23c%2F..%2F+d"), "{path}");
}

#[test]
fn an_envelope_says_each_field_once() {
    let signer = Signer::new();
    let envelope = signer.envelope(&json!({})).to_string();
    for twice in [r#""Message":"{}","#, r#""SigningCertUrl":"https://evil.example/a.pem","#, r#""TopicArn":"x","#] {
        let body = envelope.replacen('{', &format!("{{{twice}"), 1);
        assert_eq!(
            ses::parse_envelope(&HeaderMap::new(), body.as_bytes()).err(),
            Some(VerifyError::Malformed("the envelope")),
            "{twice}"
        );
    }
}

#[test]
fn a_certificate_of_another_name_or_key_is_refused() {
    let vectors = vectors();
    for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert_eq!(SnsCertificate::parse(wrong.as_bytes()), Err(VerifyError::Certificate));
    }
    let made = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem();
    assert_eq!(
        SnsCertificate::parse(made("sns.amazonaws.com").as_bytes()),
        Err(VerifyError::Certificate),
        "a key of ECDSA"
    );
    assert_eq!(SnsCertificate::parse(made("evil.example").as_bytes()), Err(VerifyError::Certificate));
    assert_ne!(certificate(&vectors, "aws-2021-09-07"), certificate(&vectors, "synthetic"));
}

#[test]
fn the_text_that_follows_a_confirmation_is_no_event() {
    let parsed = webhook_for(Provider::Ses).parse(
        b"Successfully validated SNS topic for Amazon SES event publishing.",
        Some("id"),
        now(),
    );
    assert_eq!((parsed.events.len(), parsed.unreadable), (0, 0));
    let parsed = webhook_for(Provider::Ses).parse(
        br#"{"notificationType":"AmazonSnsSubscriptionSucceeded","message":"x"}"#,
        Some("id"),
        now(),
    );
    assert_eq!((parsed.events.len(), parsed.nameless, parsed.unreadable), (0, 0, 0));
}
