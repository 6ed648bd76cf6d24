//! What a signature covers, and the standards' examples. `tests/it/smtp/dkim.rs` verifies it with other
//! programs.

use proptest::prelude::*;
use tidings_model::Provider;

use super::*;

const RSA: &str = include_str!("../../../tests/data/dkim/rsa.pem");
const ED25519: &str = include_str!("../../../tests/data/dkim/ed25519.pem");

fn signer(pem: &str) -> DkimSigner {
    DkimSigner::new("s1", "mail.example.com", pem.as_bytes()).unwrap()
}

/// The signature header, folded as it is.
fn signature(message: &str) -> String {
    let signed = signer(ED25519).sign(message.as_bytes(), Timestamp::UNIX_EPOCH).unwrap();
    let signed = String::from_utf8(signed).unwrap();
    signed.strip_suffix(message).unwrap().to_owned()
}

fn tag(header: &str, name: &str) -> String {
    let header = header.split_once(':').unwrap().1;
    let tags: Vec<_> = header.split(';').map(|tag| tag.trim().split_once('=').unwrap()).collect();
    tags.into_iter().find(|(tag, _)| *tag == name).unwrap().1.split_whitespace().collect()
}

#[test]
fn two_keys_sign_the_same_message() {
    let mail = b"From: a@example.com\r\n\r\nHi\r\n";
    let sign = |dkim: &DkimSigner| String::from_utf8(dkim.sign(mail, Timestamp::UNIX_EPOCH).unwrap()).unwrap();
    let own = |pem: &str| sign(&signer(pem)).strip_suffix("From: a@example.com\r\n\r\nHi\r\n").unwrap().to_owned();
    let both = signer(RSA).with_second(Some(signer(ED25519)));
    assert_eq!(sign(&both), own(RSA) + &own(ED25519) + "From: a@example.com\r\n\r\nHi\r\n");
    assert!(signer(ED25519).is_ed25519_alone() && !signer(RSA).is_ed25519_alone() && !both.is_ed25519_alone());
}

#[test]
fn headers_for_a_provider_are_not_signed() {
    let mail = "From: a@example.com\r\nTo: b@example.com\r\nList-Id: <c>\r\n";
    for provider in Provider::ALL {
        let headers = provider.headers(uuid::Uuid::from_u128(7), Some("marketing"));
        assert_eq!(signed_headers((headers + mail).as_bytes()), signed_headers(mail.as_bytes()), "{}", provider.name());
    }
}

/// RFC 8463, appendix A.
#[test]
fn the_signature_of_the_standard() {
    let head = "From: Joe SixPack <joe@football.example.com>\r\n\
        To: Suzie Q <suzie@shopping.example.net>\r\n\
        Subject: Is dinner ready?\r\n\
        Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
        Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n";
    let body = "Hi.\r\n\r\nWe lost the game.  Are you hungry yet?\r\n\r\nJoe.\r\n";
    let header = "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n \
        d=football.example.com; i=@football.example.com;\r\n \
        q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n \
        subject : date : message-id : from : subject : date;\r\n \
        bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=";
    let mut signed = Vec::new();
    for field in fields(head.as_bytes()) {
        canonical_header(field, &mut signed);
    }
    canonical_header(header.as_bytes(), &mut signed);
    signed.truncate(signed.len() - 2);
    let key = DkimPrivateKey::from_pem(ED25519.as_bytes()).unwrap();
    assert_eq!(tag(header, "bh"), BASE64_STANDARD.encode(digest(&SHA256, &canonical_body(body.as_bytes()))));
    assert_eq!(
        BASE64_STANDARD.encode(key.sign(&signed).unwrap()),
        "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw=="
    );
}

#[test]
fn a_signature_names_headers_that_must_stay_single_once_more() {
    let message = "From: a\r\nTo: b\r\nSubject: c\r\nReceived: d\r\nList-Id: <e>\r\nList-Unsubscribe: <f>\r\n\
        List-Unsubscribe-Post: g\r\nX-Tidings-Events: 1\r\nContent-Type: text/plain\r\n\r\nbody\r\n";
    assert_eq!(
        tag(&signature(message), "h"),
        "list-unsubscribe-post:list-unsubscribe:list-id:subject:to:from:from:to:subject:date:message-id:reply-to"
    );
}

#[test]
fn the_header_says_what_the_standards_ask_for() {
    let header = signature("From: a\r\n\r\n");
    for (name, value) in [
        ("v", "1"),
        ("a", "ed25519-sha256"),
        ("c", "relaxed/relaxed"),
        ("t", "0"),
        ("d", "mail.example.com"),
        ("s", "s1"),
        // SHA-256 of nothing (RFC 6376 3.4.4).
        ("bh", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
    ] {
        assert_eq!(tag(&header, name), value);
    }
}

#[test]
fn the_record_holds_the_public_key_as_receivers_read_it() {
    let ed25519 = signer(ED25519);
    assert_eq!(ed25519.record_name(), "s1._domainkey.mail.example.com");
    assert_eq!(ed25519.dns_record(), "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
    let rsa = signer(RSA).dns_record();
    // The first bytes of every SubjectPublicKeyInfo of RSA-2048 with the usual exponent, and the exponent.
    assert!(rsa.starts_with("v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA"), "{rsa}");
    assert!(rsa.ends_with("IDAQAB"), "{rsa}");
}

#[test]
fn a_key_that_cannot_sign_is_refused_and_not_shown() {
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    let locked = RSA.replace("RSA PRIVATE", "ENCRYPTED PRIVATE");
    let small = include_str!("../../../tests/data/dkim/rsa-1024.pem");
    let cut = RSA.replace("-----END RSA PRIVATE KEY-----", "");
    for (pem, said) in [
        ("", "there is no private key in PEM"),
        (cut.as_str(), "there is no private key in PEM"),
        (&locked, "without a password"),
        (&ec, "refused (WrongAlgorithm)"),
        (small, "refused (TooSmall); use RSA of 2048 to 4096 bits, or Ed25519"),
    ] {
        let error = DkimSigner::new("s1", "example.com", pem.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        let lines = pem.lines().filter(|line| line.len() > 40 && !line.contains(' '));
        assert!(lines.into_iter().all(|line| !error.contains(line)));
    }
}

#[test]
fn debug_output_does_not_show_the_key() {
    assert_eq!(
        format!("{:?}", signer(RSA)),
        "DkimSigner { selector: \"s1\", domain: \"mail.example.com\", key: Key(rsa-sha256, ***), second: None }"
    );
}

#[test]
fn no_line_of_the_header_is_longer_than_78_characters() {
    let message = "From: a\r\nList-Unsubscribe-Post: b\r\nList-Unsubscribe: c\r\nList-Id: d\r\nReply-To: e\r\n\r\n";
    for pem in [RSA, ED25519] {
        let signed = signer(pem).sign(message.as_bytes(), Timestamp::MAX).unwrap();
        assert!(String::from_utf8(signed).unwrap().split("\r\n").all(|line| line.len() <= 78));
    }
}

proptest! {
    /// Relays may refold headers, change spaces, and add empty lines at the end.
    #[test]
    fn a_relay_may_change_white_space(words in "[a-z]{1,9}( [a-z]{1,9}){0,20}", lines in 0..4_usize) {
        let message = |subject: &str, end: &str| format!("From: a\r\nSubject: {subject}\r\n\r\n{words}\r\n{end}");
        let changed = message(&words.replace(' ', "\r\n\t "), &"\r\n".repeat(lines));
        prop_assert_eq!(signature(&message(&words, "")), signature(&changed));
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_example_of_the_standard() {
    // RFC 6376 3.4.5.
    let message = b"A: X\r\nB : Y\t\r\n\tZ  \r\n\r\n C \r\nD \t E\r\n\r\n\r\n";
    let (head, rest) = split(message);
    let mut headers = Vec::new();
    for field in fields(head) {
        canonical_header(field, &mut headers);
    }
    assert_eq!(text(&headers), "a:X\r\nb:Y Z\r\n");
    assert_eq!(text(&canonical_body(rest)), " C\r\nD E\r\n");
}

#[test]
fn a_body_ends_with_one_line_break_or_is_empty() {
    for (written, canonical) in [
        ("", ""),
        ("\r\n", ""),
        ("\r\n\r\n", ""),
        (" \t\r\n \r\n", ""),
        ("a", "a\r\n"),
        ("a\r\n", "a\r\n"),
        ("a\r\n \r\n\r\n", "a\r\n"),
        ("\r\n\r\na", "\r\n\r\na\r\n"),
        (".\r\n..\r\n.a\r\n", ".\r\n..\r\n.a\r\n"),
        ("  a \t  b\t\r\n", " a b\r\n"),
    ] {
        assert_eq!(text(&canonical_body(written.as_bytes())), canonical, "{written:?}");
    }
}

#[test]
fn a_folded_header_is_one_line() {
    let head = b"Subject: =?utf-8?b?YQ==?=\r\n =?utf-8?b?Yg==?=\r\nTO:\r\n\tann@example.net\r\nEmpty:\r\n";
    let all: Vec<_> = fields(head)
        .into_iter()
        .map(|field| {
            let mut out = Vec::new();
            canonical_header(field, &mut out);
            text(&out).to_owned()
        })
        .collect();
    assert_eq!(all, ["subject:=?utf-8?b?YQ==?= =?utf-8?b?Yg==?=\r\n", "to:ann@example.net\r\n", "empty:\r\n"]);
}

#[test]
fn a_message_without_a_body_has_only_headers() {
    assert_eq!(split(b"A: b\r\n"), (&b"A: b\r\n"[..], &b""[..]));
    assert_eq!(split(b"A: b\r\n\r\n"), (&b"A: b\r\n"[..], &b""[..]));
}
