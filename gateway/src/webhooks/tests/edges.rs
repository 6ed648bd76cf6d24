//! Forged or careless requests without a published vector.

use proptest::prelude::*;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};

use super::*;

const NOW: i64 = 1_795_262_400;
const BODY: &[u8] = b"{\"type\":\"email.sent\"}";
/// Made for these tests.
const SECRETS: [&str; 2] = ["whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==", "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IHR3bw=="];

fn secrets() -> Vec<SigningSecret> {
    SECRETS.iter().map(|secret| SigningSecret::parse(secret).unwrap()).collect()
}

fn svix<'a>(id: &'a str, timestamp: &'a str, signature: &'a str) -> HeaderMap {
    headers([("svix-id", id), ("svix-timestamp", timestamp), ("svix-signature", signature)])
}

fn verified(headers: &HeaderMap, body: &[u8], secrets: &[SigningSecret], now: Timestamp) -> Result<(), VerifyError> {
    SigningSecret::verify(headers, body, secrets, now).map(drop)
}

#[test]
fn any_right_signature_by_any_secret_will_do() {
    let timestamp = NOW.to_string();
    for secret in secrets() {
        let right = secret.sign("id", NOW, BODY);
        for (list, accepted) in [
            (right.clone(), true),
            (format!("v1,AAAA v1a,AAAA {right}"), true),
            (format!("{right} v1,AAAA"), true),
            (format!("  {right}"), true),
            (right.replace("v1,", "v1a,"), false),
            (right.replace("v1,", ""), false),
            (right.replace("v1,", "V1,"), false),
            (format!("{right},{right}"), false),
            (format!("{right}A"), false),
            (right[..right.len() - 4].to_owned(), false),
            (format!("v1,{}", STANDARD.encode([0; 32])), false),
        ] {
            let answer = verified(&svix("id", &timestamp, &list), BODY, &secrets(), at(NOW)).is_ok();
            assert_eq!(answer, accepted, "{list}");
        }
    }
    let unknown = SigningSecret::parse("whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG5pbmU=").unwrap().sign("id", NOW, BODY);
    assert_eq!(verified(&svix("id", &timestamp, &unknown), BODY, &secrets(), at(NOW)), Err(VerifyError::Signature));
    assert_eq!(verified(&svix("id", &timestamp, &unknown), BODY, &[], at(NOW)), Err(VerifyError::Signature));
}

#[test]
fn the_time_of_a_signature_is_digits_within_five_minutes() {
    let secret = &secrets()[0];
    for (offset, accepted) in [(0, true), (300, true), (-300, true), (301, false), (-301, false)] {
        let signature = secret.sign("id", NOW, BODY);
        let answer = verified(&svix("id", &NOW.to_string(), &signature), BODY, &secrets(), at(NOW + offset));
        assert_eq!(answer.is_ok(), accepted, "{offset}");
    }
    for timestamp in ["+1795262400", "-1", "1795262400.0", " 1795262400", "99999999999999999999"] {
        let answer = verified(&svix("id", timestamp, "v1,AAAA"), BODY, &secrets(), at(NOW));
        assert_eq!(answer, Err(VerifyError::Malformed("the timestamp")), "{timestamp}");
    }
}

#[test]
fn an_id_that_moves_into_the_body_is_not_json() {
    let signature = secrets()[0].sign("a.1795262400", NOW, BODY);
    let moved = [b"1795262400.", BODY].concat();
    let answer = verified(&svix("a", &NOW.to_string(), &signature), &moved, &secrets(), at(NOW));
    // The signed text is the same. The body is no JSON then, as its first part is a time.
    assert!(answer.is_ok());
    assert_eq!(webhook_for(Provider::Resend).parse(&moved, Some("a"), now()).unreadable, 1);
}

#[test]
fn a_secret_is_base64_of_sixteen_bytes_or_more() {
    for wrong in ["", "whsec_", "whsec_AAAA", "whsec_!!!!", "hunter2", "whsec_whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ=="] {
        assert!(SigningSecret::parse(wrong).is_err(), "{wrong}");
    }
}

/// The key of our own vectors.
fn sendgrid_key(vectors: &Value) -> (EcdsaKeyPair, PublicKey) {
    let hex = text(&vectors["sendgrid"]["synthetic_private_scalar_hex"]);
    let scalar: Vec<_> = (0..32).map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap()).collect();
    let spki = text(&list(&vectors["sendgrid"]["requests"]).last().unwrap()["public_key_spki_b64"]);
    let point = &STANDARD.decode(spki).unwrap()[26..];
    let (algorithm, random) = (&ECDSA_P256_SHA256_ASN1_SIGNING, SystemRandom::new());
    let key = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, point, &random).unwrap();
    (key, PublicKey::parse(spki).unwrap())
}

#[test]
fn sendgrid_signs_by_one_of_several_keys_over_digits_and_raw_bytes() {
    let vectors = vectors();
    let (key, public) = sendgrid_key(&vectors);
    let other = text(&list(&vectors["sendgrid"]["requests"])[0]["public_key_spki_b64"]);
    let other = PublicKey::parse(other).unwrap();
    let signed = |timestamp: &str, body: &[u8]| {
        let signature = key.sign(&SystemRandom::new(), &[timestamp.as_bytes(), body].concat()).unwrap();
        let signature = STANDARD.encode(signature);
        headers([
            ("X-Twilio-Email-Event-Webhook-Signature", signature.as_str()),
            ("X-Twilio-Email-Event-Webhook-Timestamp", timestamp),
        ])
    };
    let body = b"[]\r\n";
    let by =
        |keys: &[PublicKey], headers: &HeaderMap, body: &[u8]| PublicKey::verify(headers, body, keys, now()).map(drop);
    let right = signed("1600112502", body);
    let known = [public.clone()];
    assert_eq!(by(&[other.clone(), public], &right, body), Ok(()));
    assert_eq!(by(&[other], &right, body), Err(VerifyError::Signature));
    assert_eq!(by(&[], &right, body), Err(VerifyError::Signature));
    assert_eq!(by(&known, &right, b"[]\n"), Err(VerifyError::Signature));
    for timestamp in ["", " ", "1600112502 ", "+1600112502", "160011250a", "٣"] {
        let refused = by(&known, &signed(timestamp, body), body);
        assert_eq!(refused, Err(VerifyError::Malformed("x-twilio-email-event-webhook-timestamp")), "{timestamp:?}");
    }
    let mut raw = right.clone();
    let signature = raw["X-Twilio-Email-Event-Webhook-Signature"].to_str().unwrap();
    let longer = [STANDARD.decode(signature).unwrap(), vec![0]].concat();
    raw.insert("X-Twilio-Email-Event-Webhook-Signature", STANDARD.encode(longer).parse().unwrap());
    assert_eq!(by(&known, &raw, body), Err(VerifyError::Signature), "a byte after the signature");
    raw.insert("X-Twilio-Email-Event-Webhook-Signature", "é".parse().unwrap());
    let refused = Err(VerifyError::Malformed("x-twilio-email-event-webhook-signature"));
    assert_eq!(by(&known, &raw, body), refused);
    raw.remove("X-Twilio-Email-Event-Webhook-Signature");
    assert_eq!(by(&known, &raw, body), Err(VerifyError::Header("x-twilio-email-event-webhook-signature")));
    for wrong in ["", "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE", "AAAA", "-----BEGIN PUBLIC KEY-----"] {
        assert!(PublicKey::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn mailgun_signs_a_token_of_fifty_characters_within_twelve_hours() {
    let keys = ["an older key of the account", "the key of the account"].map(|key| SigningKey::parse(key).unwrap());
    let sign = |timestamp: &str, token: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"the key of the account");
        let tag = ring::hmac::sign(&key, format!("{timestamp}{token}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"timestamp": timestamp, "token": token, "signature": hex})
    };
    let by =
        |body: &Value, now: i64| proven_token(body.to_string().as_bytes(), &keys, at(now)).map(|token| token.token);
    let (time, token) = (NOW.to_string(), "0".repeat(50));
    let right = sign(&time, &token);
    let body = |signature: &Value| json!({"signature": signature});
    assert_eq!(by(&body(&right), NOW), Ok(token.clone()));
    let hours = 12 * 3_600;
    for (offset, accepted) in [(hours, true), (-hours, true), (hours + 1, false), (-hours - 1, false)] {
        assert_eq!(by(&body(&right), NOW + offset).is_ok(), accepted, "{offset}");
    }
    // A digit that moves from the time to the token leaves the signed text unchanged.
    let moved =
        json!({"timestamp": &time[..9], "token": format!("{}{token}", &time[9..]), "signature": right["signature"]});
    assert_eq!(by(&body(&moved), NOW), Err(VerifyError::Malformed("the signature")));
    let upper = json!({"timestamp": time, "token": token, "signature": text(&right["signature"]).to_uppercase()});
    assert_eq!(by(&body(&upper), NOW), Err(VerifyError::Signature));
    for (timestamp, token) in
        [(&*time, "0"), (&*time, &"0".repeat(51)), ("+795262400", &token), (&*time, &"-".repeat(50))]
    {
        assert_eq!(
            by(&body(&sign(timestamp, token)), NOW),
            Err(VerifyError::Malformed("the signature")),
            "{timestamp}"
        );
    }
    let wrong = json!({"timestamp": time, "token": token, "signature": "0".repeat(64)});
    assert_eq!(by(&json!({"signature": wrong, "parent-signature": right}), NOW), Ok(token.clone()), "of a subaccount");
    assert_eq!(by(&json!({"signature": wrong, "parent-signature": wrong}), NOW), Err(VerifyError::Signature));
    assert_eq!(by(&json!({"parent-signature": right}), NOW), Err(VerifyError::Malformed("the signature")));
    let twice = format!("{{\"signature\":{wrong},\"signature\":{right}}}");
    let refused = proven_token(twice.as_bytes(), &keys, at(NOW));
    assert_eq!(refused, Err(VerifyError::Malformed("the signature")));
}

#[test]
fn credentials_are_compared_as_a_whole() {
    let known = [
        BasicCredentials::new("tidings", "0123456789abcdef"),
        BasicCredentials::parse("old:fedcba9876543210").unwrap(),
    ];
    let basic = |text: &[u8]| format!("Basic {}", STANDARD.encode(text));
    let verify = |headers: &HeaderMap, known: &[BasicCredentials]| {
        BasicCredentials::verify(headers, b"", known, now()).map(drop)
    };
    for (header, accepted) in [
        (basic(b"tidings:0123456789abcdef"), true),
        (basic(b"old:fedcba9876543210"), true),
        (basic(b"tidings:fedcba9876543210"), false),
        (basic(b"tidings:0123456789abcde"), false),
        (basic(b"tidings:0123456789abcdef\0"), false),
        (basic(b"Tidings:0123456789abcdef"), false),
        (basic(b"tidings0123456789abcdef"), false),
        (basic(b""), false),
        (basic(b"\xff\xfe:"), false),
        ("Basic".to_owned(), false),
        ("Basic !!!!".to_owned(), false),
        (basic(b"tidings:0123456789abcdef").replace("Basic", "Bearer"), false),
    ] {
        assert_eq!(verify(&headers([("authorization", &*header)]), &known).is_ok(), accepted, "{header}");
    }
    assert_eq!(verify(&headers([("authorization", &*basic(b":"))]), &[]), Err(VerifyError::Credentials));
    for wrong in ["", "tidings", ":0123456789abcdef", "tidings:short", "tidings:0123456789abcde"] {
        assert!(BasicCredentials::parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn no_changed_bit_passes(bit in 0..(BODY.len() * 8), secret in 0..2_usize) {
        let mut body = BODY.to_vec();
        body[bit / 8] ^= 1 << (bit % 8);
        let signature = secrets()[secret].sign("id", NOW, BODY);
        let refused = verified(&svix("id", &NOW.to_string(), &signature), &body, &secrets(), at(NOW));
        prop_assert_eq!(refused, Err(VerifyError::Signature));
    }

    #[test]
    fn no_body_stops_a_parser(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        for provider in Provider::ALL {
            let parsed = webhook_for(provider).parse(&body, Some("id"), now());
            prop_assert_eq!(parsed.events.len(), 0);
        }
    }
}
