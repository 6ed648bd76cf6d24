//! Webhook addresses to enter at the providers, and missing settings.

use tidings_model::Provider;

use crate::{
    Config,
    config::{ConfigProblem, ConfigTable, ConfigValue, RelayConfig, ToConfigValue as _},
};

/// Includes a relay without a webhook if its provider has them and the gateway has a public address.
pub(super) fn webhooks(config: &Config) -> ConfigTable {
    let shown =
        |(name, relay): (&String, &RelayConfig)| Some((name.clone(), ConfigValue::Table(show(config, name, relay)?)));
    config.named_relays().filter_map(shown).collect()
}

/// Shows the address (only its path without a public address), the number of secrets or SNS topics, and each
/// missing setting with its remedy.
fn show(config: &Config, name: &str, relay: &RelayConfig) -> Option<ConfigTable> {
    let public_url = config.gateway.pages.public_url.as_deref();
    let (proofs, problem) = match relay.webhook() {
        Ok(Some(hook)) => (hook.secret_count(), None),
        Ok(None) if public_url.is_none() || relay.provider() == Provider::Other => return None,
        Ok(None) => (0, Some(without_webhook(name, relay.provider()))),
        Err(unset) => (0, Some(unset)),
    };
    let missing = problem.into_iter().chain(public_url.is_none().then(|| config.gateway.missing_address()));
    let missing: Vec<_> = missing.map(|problem| problem.to_string()).collect();
    Some(ConfigTable::of([
        ("route", format!("{}/webhooks/{name}", public_url.unwrap_or_default()).show()),
        ("provider", relay.provider().show()),
        (if relay.provider() == Provider::Ses { "topics" } else { "secrets" }, proofs.show()),
        ("missing", Some(missing).filter(|missing| !missing.is_empty()).show()),
    ]))
}

/// Without one, we never see the relay's bounces and complaints.
fn without_webhook(name: &str, provider: Provider) -> ConfigProblem {
    let (key, right) = match provider {
        Provider::Ses => ("topic_arn", "the SNS topic to which SES publishes its events"),
        _ => ("webhook_secret_env", "the name of the environment variable with the webhook's secret"),
    };
    let problem = format!("is missing; write {right}, or {} reports nothing", provider.name());
    ConfigProblem::new(format!("[relay.{name}]"), key, problem)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    const GATEWAY: &str = "[gateway]\npublic_url = \"https://mail.acme.example\"\n";
    const MAILGUN: &str = "TEST_WEBHOOK_SIGNING_KEY";

    /// The webhooks of a relay with these keys, in JSON. The variable `M_WEBHOOK` has two secrets.
    fn shown(keys: &str, gateway: &str) -> serde_json::Value {
        let text = format!(
            "{gateway}[relay.m]\nurl = \"smtp://127.0.0.1\"\n{keys}\n[stream.bulk]\nrelays = [\"m\"]\n\
             [stream.transactional]\nrelays = [\"m\"]\n"
        );
        let environment = |name: &str| (name == "M_WEBHOOK").then(|| format!("{MAILGUN} {MAILGUN}"));
        serde_json::to_value(webhooks(&Config::parse_text(Path::new("tidings.toml"), &text, &environment).unwrap()))
            .unwrap()
    }

    #[test]
    fn a_webhook_shows_its_route_and_the_number_of_its_secrets() {
        let mailgun = "provider = \"mailgun\"\nwebhook_secret_env = \"M_WEBHOOK\"";
        let route = "https://mail.acme.example/webhooks/m";
        let expected = json!({"m": {"route": route, "provider": "mailgun", "secrets": 2}});
        assert_eq!(shown(mailgun, GATEWAY), expected);
        let topics = "provider = \"ses\"\ntopic_arn = \"arn:aws:sns:eu-west-1:123456789012:tidings-events\"";
        assert_eq!(shown(topics, GATEWAY), json!({"m": {"route": route, "provider": "ses", "topics": 1}}));
        assert_eq!(shown("provider = \"other\"", GATEWAY), json!({}));
        assert_eq!(shown("provider = \"mailgun\"", ""), json!({}));
    }

    #[test]
    fn missing_parts_of_a_webhook_are_listed_with_their_remedy() {
        for (keys, gateway, missing) in [
            (
                "provider = \"postmark\"\nwebhook_secret_env = \"P_WEBHOOK\"",
                GATEWAY,
                &["tidings.toml:6: relay.m.webhook_secret_env = \"P_WEBHOOK\": is not set; set it to USER:PASSWORD"][..],
            ),
            (
                "provider = \"mailgun\"\nwebhook_secret_env = \"M_WEBHOOK\"",
                "",
                &["default: gateway.public_url: is missing; write the address"],
            ),
            ("provider = \"ses\"", GATEWAY, &["[relay.m]: topic_arn: is missing; write the SNS topic"]),
            ("provider = \"resend\"", GATEWAY, &["[relay.m]: webhook_secret_env: is missing; write the name"]),
        ] {
            let shown = shown(keys, gateway);
            let said: Vec<_> = shown["m"]["missing"].as_array().unwrap().iter().filter_map(|s| s.as_str()).collect();
            assert_eq!(said.len(), missing.len(), "{said:?}");
            assert!(said.iter().zip(missing).all(|(said, expected)| said.starts_with(expected)), "{said:?}");
        }
    }
}
