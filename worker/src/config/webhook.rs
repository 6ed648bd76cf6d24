//! The webhook of a relay: the keys `webhook_secret_env`, `topic_arn` and `allow_sha1` of `[relay.NAME]`.
//!
//! The variable may be missing. Only the gateway needs its value.

use tidings_gateway::webhooks::{Hook, webhook};
use tidings_model::Provider;
use toml::Spanned;

use super::{
    problem::{Checks, Problem},
    variable::{shown, variable_name},
};

/// The keys of a relay's table that are about its webhook.
pub(super) struct RawWebhook<'a> {
    pub table: &'a str,
    pub secret_env: Option<&'a Spanned<String>>,
    pub topic_arn: Option<&'a Spanned<String>>,
    pub allow_sha1: Option<&'a Spanned<bool>>,
}

impl RawWebhook<'_> {
    /// Returns the webhook, if the relay has one; an error if the environment lacks its secret.
    pub fn check(&self, provider: Provider, checks: &mut Checks<'_>) -> Option<Result<Hook, Problem>> {
        if provider == Provider::Ses { self.topics(checks).map(Ok) } else { self.secrets(provider, checks) }
    }

    /// SNS signs with certificates, so that the topic is what the operator has to say.
    fn topics(&self, checks: &mut Checks<'_>) -> Option<Hook> {
        if let Some(variable) = self.secret_env {
            let fault = "is not needed for Amazon SES, which signs with a certificate; write topic_arn instead";
            checks.report(self.problem(
                checks.place_of(variable),
                "webhook_secret_env",
                &shown(variable.as_ref()),
                fault,
            ));
        }
        let key = format!("{}.topic_arn", self.table);
        let mut hook = Hook::new(Provider::Ses);
        if let (Some(allow), None) = (self.allow_sha1, self.topic_arn) {
            let value = allow.as_ref().to_string();
            checks.report(self.problem(checks.place_of(allow), "allow_sha1", &value, "needs topic_arn, too"));
        }
        checks.value(&key, self.topic_arn, |arns| add_all(&mut hook, arns))?;
        if self.allow_sha1.is_some_and(|allow| *allow.as_ref()) {
            hook.allow_sha1();
        }
        Some(hook)
    }

    fn secrets(&self, provider: Provider, checks: &mut Checks<'_>) -> Option<Result<Hook, Problem>> {
        let needs_ses = "needs provider = \"ses\"; leave the key out";
        if let Some(arn) = self.topic_arn {
            checks.report(self.problem(checks.place_of(arn), "topic_arn", arn.as_ref(), needs_ses));
        }
        if let Some(allow) = self.allow_sha1 {
            let value = allow.as_ref().to_string();
            checks.report(self.problem(checks.place_of(allow), "allow_sha1", &value, needs_ses));
        }
        let variable = self.secret_env?;
        let (name, place) = (variable.as_ref(), checks.place_of(variable));
        let problem = |fault: &str| self.problem(place.clone(), "webhook_secret_env", &shown(name), fault);
        let named = variable_name(name, &format!("{:?}", example(self.table)));
        checks.accept(named.map_err(|fault| problem(&fault)))?;
        let Some(secrets) = checks.variable(name) else {
            return Some(Err(problem(&format!("is not set; set it to {}", webhook(provider).secret()))));
        };
        let mut hook = Hook::new(provider);
        let added = add_all(&mut hook, &secrets);
        let wrong = |problem| Problem {
            place: "environment".to_owned(),
            key: name.to_owned(),
            value: "***".to_owned(),
            problem,
        };
        checks.accept(added.map_err(wrong)).map(|()| Ok(hook))
    }

    fn problem(&self, place: String, key: &str, value: &str, problem: &str) -> Problem {
        Problem { place, key: format!("{}.{key}", self.table), value: value.to_owned(), problem: problem.to_owned() }
    }
}

/// Adds each of the secrets or topics, which have spaces between them.
fn add_all(hook: &mut Hook, texts: &str) -> Result<(), String> {
    let mut texts = texts.split_whitespace().peekable();
    texts.peek().ok_or("is empty")?;
    texts.try_for_each(|text| hook.add(text))
}

/// `SENDGRID_WEBHOOK` for the table `relay.sendgrid`.
fn example(table: &str) -> String {
    let name = table.rsplit('.').next().unwrap_or_default().replace('-', "_");
    format!("{}_WEBHOOK", name.to_uppercase())
}
