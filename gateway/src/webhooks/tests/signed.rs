//! The vectors of every provider except SNS: each passes or fails as the file says.

use super::*;

#[test]
fn every_vector_of_sendgrid_passes_or_fails_as_it_should() {
    let vectors = vectors();
    for vector in list(&vectors["sendgrid"]["requests"]) {
        let key = PublicKey::parse(text(&vector["public_key_spki_b64"])).unwrap();
        let verified = PublicKey::verify(&headers_of(vector), &body_of(vector), &[key], now());
        assert_eq!(verified.is_ok(), vector["valid"] == true, "{} {verified:?}", vector["name"]);
    }
    let moved =
        list(&vectors["sendgrid"]["requests"]).iter().find(|vector| vector["name"] == "timestamp moved into the body");
    let parsed = webhook_for(Provider::SendGrid).parse(&body_of(moved.unwrap()), None, now());
    assert_eq!((parsed.events.len(), parsed.unreadable), (0, 1));
    let beside = list(&vectors["sendgrid"]["requests"]).last().unwrap();
    let event = &webhook_for(Provider::SendGrid).parse(&body_of(beside), None, now()).events[0];
    assert_eq!(event.of, [MessageReference::Id("01234567-89ab-5def-8123-456789abcdef".parse().unwrap())]);
}

#[test]
fn every_vector_of_svix_passes_or_fails_as_it_should() {
    let vectors = vectors();
    for vector in list(&vectors["svix"]["requests"]) {
        let secret = SigningSecret::parse(text(&vector["secret"])).unwrap();
        let now = at(vector["now"].as_i64().unwrap());
        let headers = headers_of(vector);
        let verified = SigningSecret::verify(&headers, &body_of(vector), &[secret], now);
        assert_eq!(verified.is_ok(), vector["valid"] == true, "{} {verified:?}", vector["name"]);
    }
    for empty in list(&vectors["svix"]["empty_secrets_to_refuse"]) {
        assert!(SigningSecret::parse(text(empty)).is_err());
    }
}

#[test]
fn every_vector_of_mailgun_passes_or_fails_as_it_should() {
    let vectors = vectors();
    for vector in list(&vectors["mailgun"]["signatures"]) {
        let key = SigningKey::parse(text(&vector["signing_key"])).unwrap();
        let body = json!({"signature": vector["signature"], "event-data": {}}).to_string();
        let now = at(text(&vector["signature"]["timestamp"]).parse().unwrap());
        let verified = proven_token(body.as_bytes(), &[key], now);
        assert_eq!(verified.is_ok(), vector["valid"] == true, "{} {verified:?}", vector["name"]);
    }
    let two = &vectors["mailgun"]["same_signature_two_bodies"];
    let key = SigningKey::parse(text(&two["signing_key"])).unwrap();
    let tokens = list(&two["bodies_utf8"]).iter().map(|body| {
        proven_token(text(body).as_bytes(), std::slice::from_ref(&key), at(two["now"].as_i64().unwrap())).unwrap()
    });
    let tokens: Vec<_> = tokens.collect();
    assert_eq!(tokens[0].token, tokens[1].token);
    assert_ne!(tokens[0].body_sha256, tokens[1].body_sha256, "so that the store refuses the second");
}

#[test]
fn every_vector_of_basic_credentials_passes_or_fails_as_it_should() {
    let vectors = vectors();
    for vector in list(&vectors["postmark"]["requests"]) {
        let credentials = [BasicCredentials::new(text(&vector["user"]), text(&vector["password"]))];
        let verified = BasicCredentials::verify(&headers_of(vector), b"", &credentials, now());
        assert_eq!(verified.is_ok(), vector["valid"] == true, "{} {verified:?}", vector["name"]);
    }
}
