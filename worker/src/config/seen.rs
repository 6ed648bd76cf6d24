//! The service that knows which events were seen: the keys `seen_url` and `seen_secret_env` of `[digest.NAME]`.
//!
//! The variable may be missing. Only a worker needs its value.

use tidings_model::{settings::SeenService, webhook_secret::Secret};
use toml::Spanned;

use super::{
    problem::{Checks, Problem},
    variable::{shown, variable_name},
};

/// Checks both keys of `table`. `None`: one of them is wrong.
#[expect(clippy::option_option, reason = "no service is right, and a wrong one is not")]
pub(super) fn check(
    table: &str,
    url: Option<&Spanned<String>>,
    secret_env: Option<&Spanned<String>>,
    checks: &mut Checks<'_>,
) -> Option<Option<SeenService>> {
    let mut missing = |beside: &Spanned<String>, key: &str, other: &str| {
        checks.report(Problem {
            place: checks.place_of(beside),
            key: format!("{table}.{key}"),
            value: String::new(),
            problem: format!("needs {other}, too"),
        });
        None
    };
    let (url, variable) = match (url, secret_env) {
        (None, None) => return Some(None),
        (Some(url), None) => return missing(url, "seen_url", "seen_secret_env = \"TIDINGS_SEEN_SECRET\""),
        (None, Some(variable)) => {
            return missing(variable, "seen_secret_env", "seen_url = \"https://app.example.com/tidings/seen\"");
        }
        (Some(url), Some(variable)) => (url, variable),
    };
    let url = checks.value(&format!("{table}.seen_url"), Some(url), str::parse);
    let (secret, name) = secret(&format!("{table}.seen_secret_env"), variable, "\"TIDINGS_SEEN_SECRET\"", checks)?;
    Some(Some(SeenService { url: url?, secret, secret_env: name }))
}

/// Reads the secret of the variable that `key` names, and returns it with the variable's name. `None`: one of them is wrong. A variable
/// that is not set has no secret.
pub(super) fn secret(
    key: &str,
    variable: &Spanned<String>,
    right: &str,
    checks: &mut Checks<'_>,
) -> Option<(Option<Secret>, String)> {
    let name = variable.as_ref();
    let named = variable_name(name, right).map_err(|problem| Problem {
        place: checks.place_of(variable),
        key: key.to_owned(),
        value: shown(name),
        problem,
    });
    checks.accept(named)?;
    let secret = match checks.variable(name) {
        Some(secret) => {
            let wrong = |problem| Problem {
                place: "environment".to_owned(),
                key: name.clone(),
                value: "***".to_owned(),
                problem,
            };
            Some(checks.accept(Secret::parse(&secret).map_err(wrong))?)
        }
        None => None,
    };
    Some((secret, name.clone()))
}

/// The problem of a worker that cannot sign its questions.
pub(super) fn problem(service: &SeenService) -> Option<Problem> {
    service.secret.is_none().then(|| Problem {
        place: "environment".to_owned(),
        key: service.secret_env.clone(),
        value: String::new(),
        problem: "is not set; set it to what `echo whsec_$(openssl rand -base64 24)` prints, here and at the service \
                  of seen_url"
            .to_owned(),
    })
}
