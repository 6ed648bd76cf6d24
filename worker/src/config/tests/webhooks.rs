//! Webhooks of relays: each provider's secret, and problems that name the key and what to do.

use tidings_model::RelaysToday;

use super::*;

const KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==";
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:tidings-events";

/// A relay of the provider, used by a stream, with more keys.
fn relay(provider: &str, keys: &str) -> String {
    format!(
        "[relay.r-1]\nurl = \"smtp://127.0.0.1\"\nprovider = \"{provider}\"\n{keys}\n[stream.bulk]\nrelays = [\"r-1\"]\n"
    )
}

fn secret(provider: &str, value: &str) -> Result<Config, String> {
    read(&relay(provider, "webhook_secret_env = \"R_WEBHOOK\""), &[("R_WEBHOOK", value)])
        .map_err(|error| error.to_string())
}

#[test]
fn each_provider_has_a_webhook_with_one_secret_or_several() {
    let standard = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
    for (provider, value) in [
        ("sendgrid", KEY),
        ("mailgun", "TEST_WEBHOOK_SIGNING_KEY"),
        ("postmark", "tidings:0123456789abcdef"),
        ("mailjet", "tidings:0123456789abcdef"),
        ("resend", standard),
        ("other", standard),
    ] {
        for value in [value.to_owned(), format!("{value}  {value}\n")] {
            let hooks = secret(provider, &value).unwrap().webhooks().unwrap();
            assert_eq!(hooks.keys().collect::<Vec<_>>(), ["r-1"], "{provider}");
        }
    }
    for keys in [format!("topic_arn = \"{TOPIC} {TOPIC}\""), format!("topic_arn = \"{TOPIC}\"\nallow_sha1 = true")] {
        let hooks = read(&relay("ses", &keys), &[]).unwrap().webhooks().unwrap();
        assert_eq!(hooks.len(), 1);
    }
    assert!(read(&relay("ses", ""), &[]).unwrap().webhooks().unwrap().is_empty());
}

#[test]
fn a_wrong_secret_is_reported_and_never_shown() {
    for (provider, says) in [
        ("sendgrid", "is not SendGrid's verification key"),
        ("mailgun", "is not Mailgun's HTTP webhook signing key"),
        ("postmark", "is not USER:PASSWORD"),
        ("mailjet", "is not USER:PASSWORD"),
        ("resend", "is not a secret like whsec_"),
        ("other", "is not a secret like whsec_"),
    ] {
        for value in ["hunter2", "hunter2 hunter2"] {
            let said = secret(provider, value).unwrap_err();
            assert!(said.starts_with("environment: R_WEBHOOK = \"***\": ") && said.contains(says), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}

#[test]
fn a_secret_that_is_missing_stops_the_gateway_and_nothing_else() {
    let config = read(&relay("resend", "webhook_secret_env = \"R_WEBHOOK\""), &[]).unwrap();
    assert!(config.settings(UnknownRecipients::Wait).is_ok());
    let said = config.webhooks().unwrap_err().to_string();
    assert_eq!(
        said,
        "tidings.toml:4: relay.r-1.webhook_secret_env = \"R_WEBHOOK\": is not set; set it to the signing secret of the webhook, whsec_..."
    );
}

#[test]
fn a_webhook_reports_for_the_relays_that_it_names() {
    let keys = "webhook_secret_env = \"R_WEBHOOK\"\nreports_for = [\"old\", \"older\"]";
    let settings = read(&relay("other", keys), &[]).unwrap().unchecked_settings();
    assert_eq!(settings.reports_for["r-1"], ["old", "older"]);
    assert_eq!(RelaysToday::from_settings(&settings).name_of("old"), "old", "it is another relay");
    assert_eq!(["r-1", "old", "else"].map(|name| settings.relay_today(name)), ["r-1", "r-1", "else"]);
    for (keys, says) in [
        ("reports_for = [\"old\"]", "needs a webhook; add webhook_secret_env"),
        ("topic_arn = \"arn:aws:sns:eu-west-1:123456789012:t\"\nreports_for = [\"r-1\"]", "is the relay itself"),
        ("topic_arn = \"arn:aws:sns:eu-west-1:123456789012:t\"\nreports_for = [\"a b\"]", "is not a name of up to 64"),
    ] {
        let said = read(&relay("ses", keys), &[]).unwrap_err().to_string();
        assert!(said.contains("relay.r-1.reports_for = ") && said.contains(says), "{said}");
    }
}

#[test]
fn a_relay_is_known_by_the_names_that_it_had() {
    let settings = read(&relay("other", "was = [\"old\"]"), &[]).unwrap().unchecked_settings();
    assert_eq!(RelaysToday::from_settings(&settings).name_of("old"), "r-1");
    assert_eq!(["r-1", "old", "else"].map(|name| settings.relay_today(name)), ["r-1", "r-1", "else"]);
    for (keys, says) in [
        ("was = [\"r-1\"]", "is the name that the table has"),
        ("was = [\"\"]", "is empty"),
        ("was = [\"old\", \"old\"]", "was the name of [relay.r-1] already"),
    ] {
        let said = read(&relay("other", keys), &[]).unwrap_err().to_string();
        assert!(said.contains("relay.r-1.was") && said.contains(says), "{said}");
    }
}

#[test]
fn keys_of_another_provider_and_malformed_values_are_problems() {
    let sha1 = "allow_sha1 = true";
    for (provider, keys, says) in [
        (
            "ses",
            "webhook_secret_env = \"R_WEBHOOK\"".to_owned(),
            "webhook_secret_env = \"R_WEBHOOK\": is not needed for Amazon SES",
        ),
        (
            "ses",
            "topic_arn = \"tidings-events\"".to_owned(),
            "topic_arn = \"tidings-events\": is not the ARN of a topic",
        ),
        ("ses", format!("topic_arn = \"{TOPIC} arn:aws:sns:s3:123456789012:t\""), "is not the ARN of a topic"),
        ("ses", sha1.to_owned(), "allow_sha1 = \"true\": needs topic_arn"),
        ("resend", format!("topic_arn = \"{TOPIC}\""), "needs provider = \"ses\"; leave the key out"),
        ("resend", sha1.to_owned(), "allow_sha1 = \"true\": needs provider = \"ses\"; leave the key out"),
        (
            "resend",
            "webhook_secret_env = \"whsec_AAAA/BBBB\"".to_owned(),
            "webhook_secret_env = \"***\": is not the name of a variable; write for example \"R_1_WEBHOOK\"",
        ),
    ] {
        let said = read(&relay(provider, &keys), &[]).unwrap_err().to_string();
        assert!(said.starts_with("tidings.toml:4: relay.r-1.") && said.contains(says), "{said}");
    }
}
