//! Filters such as `--filter 'tenant=acme and digest_type=alerts'`. Temporal's visibility finds the keys, then we
//! check each again.

use std::{collections::BTreeSet, future::ready, str::FromStr};

use futures::{Stream, TryStreamExt as _};
use temporalio_client::{Client, WorkflowListOptions, errors::ClientError};
use tidings_model::{Key, names, pause::PauseScope, settings::FormerNames};
use tidings_services::visibility;
use tracing::instrument;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFilter {
    pub tenant: Option<String>,
    pub digest_type: Option<String>,
    pub user: Option<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n    {words}\n    {:at$}^", "")]
pub struct KeyFilterError {
    words: String,
    at: usize,
    problem: String,
}

impl KeyFilter {
    /// Lists matching open keys, including those paused in Temporal. Visibility lags, so the newest may be
    /// missing.
    ///
    /// # Errors
    /// If Temporal fails, or rejects the query.
    #[instrument(name = "temporal", level = "debug", skip_all, fields(call = "list_workflows", filter = ?self), err(level = "debug"))]
    pub async fn keys(&self, temporal: &Client) -> Result<BTreeSet<Key>, ClientError> {
        self.stream_keys(temporal).try_collect().await
    }

    /// Streams the keys like [`KeyFilter::keys`], page by page. A key may appear twice.
    pub fn stream_keys(&self, temporal: &Client) -> impl Stream<Item = Result<Key, ClientError>> + Send + use<> {
        let filter = self.clone();
        let found = visibility::list_open(temporal, &self.query(), WorkflowListOptions::default());
        let keys = found.try_filter_map(|found| ready(Ok(Key::from_workflow_id(found.id()).ok())));
        keys.try_filter(move |key| ready(filter.selects(key)))
    }

    /// Restricts the filter to this tenant (current name). Returns `None` if it names another one.
    #[must_use]
    pub fn within_tenant(self, tenant: Option<String>, names: &FormerNames) -> Option<Self> {
        let named = [self.tenant.as_deref(), tenant.as_deref()].map(|tenant| tenant.map(|name| names.tenant(name)));
        match named {
            [Some(named), Some(tenant)] if named != tenant => None,
            [named, tenant] => Some(Self { tenant: tenant.or(named).map(str::to_owned), ..self }),
        }
    }

    #[must_use]
    pub fn under_each_name(&self, names: &FormerNames) -> Vec<Self> {
        let Self { tenant, digest_type, user } = self.clone();
        let scopes = names.all_scopes(&PauseScope { tenant, digest_type }).into_iter();
        scopes.map(|PauseScope { tenant, digest_type }| Self { tenant, digest_type, user: user.clone() }).collect()
    }

    /// By workflow id, because search attributes are optional. Ids need no escaping: they contain only letters,
    /// digits, `-._~` and percent-encoded bytes.
    fn query(&self) -> String {
        let known = |part: &Option<String>| part.clone().unwrap_or_default();
        let tenant = known(&self.tenant);
        let digest_type = if tenant.is_empty() { String::new() } else { known(&self.digest_type) };
        let user = if digest_type.is_empty() { String::new() } else { known(&self.user) };
        let whole = !user.is_empty();
        let id = Key { tenant, digest_type, user }.workflow_id();
        let id = if whole {
            format!("WorkflowId = '{id}'")
        } else {
            format!("WorkflowId STARTS_WITH '{}/'", id.trim_end_matches('/'))
        };
        format!("WorkflowType = '{}' AND {id}", names::WORKFLOW_TYPE)
    }

    #[must_use]
    pub fn selects(&self, key: &Key) -> bool {
        let is = |wanted: &Option<String>, part: &String| wanted.as_ref().is_none_or(|wanted| wanted == part);
        is(&self.tenant, &key.tenant) && is(&self.digest_type, &key.digest_type) && is(&self.user, &key.user)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Option<String>> {
        match name {
            "tenant" => Some(&mut self.tenant),
            // Jobs of earlier versions have stored `type`.
            "digest_type" | "type" => Some(&mut self.digest_type),
            "user" => Some(&mut self.user),
            _ => None,
        }
    }
}

const EXPECTED: &str = "write tenant=, digest_type= or user=, joined by `and`";

impl FromStr for KeyFilter {
    type Err = KeyFilterError;

    fn from_str(text: &str) -> Result<Self, KeyFilterError> {
        let mut words = FilterScanner { text, at: 0 };
        let mut filter = Self::default();
        loop {
            let start = words.skip_spaces();
            let name = words.take_until(|c| c == '=' || c.is_whitespace());
            let part = match filter.field_mut(name) {
                None if name.is_empty() => return Err(words.error_at(start, EXPECTED)),
                None => return Err(words.error_at(start, &format!("{name:?} selects nothing; {EXPECTED}"))),
                Some(Some(_)) => return Err(words.error_at(start, &format!("{name} is here twice"))),
                Some(part) => part,
            };
            *part = Some(words.value(name)?);
            let start = words.skip_spaces();
            if words.rest().is_empty() {
                return Ok(filter);
            }
            let and = words.take_until(char::is_whitespace);
            if !and.eq_ignore_ascii_case("and") {
                return Err(words.error_at(start, "expected `and`; quote a value that has spaces"));
            }
        }
    }
}

struct FilterScanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> FilterScanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_spaces(&mut self) -> usize {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.at
    }

    fn take_until(&mut self, end: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(end).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn value(&mut self, name: &str) -> Result<String, KeyFilterError> {
        let start = self.skip_spaces();
        if !self.rest().starts_with('=') {
            return Err(self.error_at(start, &format!("expected = after {name}")));
        }
        self.at += 1;
        let start = self.skip_spaces();
        let value = match self.rest().chars().next().filter(|c| matches!(c, '"' | '\'')) {
            None => self.take_until(char::is_whitespace),
            Some(quote) => {
                self.at += 1;
                let value = self.take_until(|c| c == quote);
                if self.rest().is_empty() {
                    return Err(self.error_at(start, "this quote has no end"));
                }
                self.at += 1;
                value
            }
        };
        if value.is_empty() {
            return Err(self.error_at(start, &format!("{name} has no value")));
        }
        Ok(value.to_owned())
    }

    fn error_at(&self, at: usize, problem: &str) -> KeyFilterError {
        let at = self.text[..at].chars().count();
        KeyFilterError { words: self.text.to_owned(), at, problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(words: &str) -> String {
        let query = words.parse::<KeyFilter>().unwrap().query();
        query.strip_prefix("WorkflowType = 'digest' AND ").unwrap().to_owned()
    }

    #[test]
    fn the_words_are_a_query_by_workflow_id() {
        for (words, expected) in [
            ("tenant=acme", "WorkflowId STARTS_WITH 'digest/acme/'"),
            ("tenant=acme and digest_type=alerts", "WorkflowId STARTS_WITH 'digest/acme/alerts/'"),
            (" digest_type = alerts AND tenant = \"acme\" ", "WorkflowId STARTS_WITH 'digest/acme/alerts/'"),
            ("tenant=acme and digest_type=alerts and user=ann", "WorkflowId = 'digest/acme/alerts/ann'"),
            ("tenant=acme and user=ann", "WorkflowId STARTS_WITH 'digest/acme/'"),
            ("digest_type=alerts", "WorkflowId STARTS_WITH 'digest/'"),
            ("tenant='a b' and digest_type=\"it's\"", "WorkflowId STARTS_WITH 'digest/a%20b/it%27s/'"),
            ("tenant=/", "WorkflowId STARTS_WITH 'digest/%2F/'"),
            (
                "tenant=\"' OR WorkflowId != '\"",
                "WorkflowId STARTS_WITH 'digest/%27%20OR%20WorkflowId%20%21%3D%20%27/'",
            ),
        ] {
            assert_eq!(query(words), expected, "{words}");
        }
    }

    #[test]
    fn keys_from_visibility_are_checked_again() {
        let key: Key = "acme/alerts/ann".parse().unwrap();
        for (words, selects) in [
            ("digest_type=alerts", true),
            ("digest_type=activity", false),
            ("tenant=acme and user=ann", true),
            ("tenant=acme and user=bob", false),
            ("user=an", false),
        ] {
            assert_eq!(words.parse::<KeyFilter>().unwrap().selects(&key), selects, "{words}");
        }
    }

    #[test]
    fn a_filter_is_narrowed_to_a_tenant_and_never_widened() {
        for (words, tenant, expected) in [
            ("digest_type=alerts", Some("acme"), Some("tenant=acme and digest_type=alerts")),
            ("tenant=acme and user=ann", Some("acme"), Some("tenant=acme and user=ann")),
            ("tenant=zeta", Some("acme"), None),
            ("tenant=zeta", None, Some("tenant=zeta")),
            ("digest_type=alerts", None, Some("digest_type=alerts")),
        ] {
            let narrowed =
                words.parse::<KeyFilter>().unwrap().within_tenant(tenant.map(str::to_owned), &FormerNames::default());
            assert_eq!(narrowed, expected.map(|words| words.parse().unwrap()), "{words} {tenant:?}");
        }
    }

    #[test]
    fn a_filter_means_each_name_of_its_tenant_and_type() {
        let was = |was: &str, today: &str| [(was.to_owned(), today.to_owned())].into();
        let names = FormerNames { digests: was("activity", "news"), tenants: was("acme", "initech") };
        let filter = |words: &str| words.parse::<KeyFilter>().unwrap();
        for (words, expected) in [
            ("tenant=initech", vec!["tenant=initech", "tenant=acme"]),
            ("tenant=acme and user=ann", vec!["tenant=initech and user=ann", "tenant=acme and user=ann"]),
            ("digest_type=activity", vec!["digest_type=news", "digest_type=activity"]),
            ("tenant=zeta", vec!["tenant=zeta"]),
            ("user=ann", vec!["user=ann"]),
        ] {
            assert_eq!(filter(words).under_each_name(&names), expected.into_iter().map(filter).collect::<Vec<_>>());
        }
        for (words, tenant, expected) in [
            ("tenant=acme", Some("initech"), Some("tenant=initech")),
            ("tenant=initech", Some("acme"), Some("tenant=initech")),
            ("tenant=acme", None, Some("tenant=initech")),
            ("tenant=zeta", Some("initech"), None),
        ] {
            let narrowed = filter(words).within_tenant(tenant.map(str::to_owned), &names);
            assert_eq!(narrowed, expected.map(filter), "{words} {tenant:?}");
        }
    }

    #[test]
    fn an_error_points_at_the_word() {
        for (words, at, problem) in [
            ("", 0, "write tenant=, digest_type= or user="),
            ("tennant=acme", 0, "\"tennant\" selects nothing; write tenant="),
            ("tenant=acme and", 15, "write tenant="),
            ("tenant=acme and and", 16, "\"and\" selects nothing"),
            ("tenant=acme or digest_type=alerts", 12, "expected `and`"),
            ("tenant=big corp", 11, "expected `and`; quote a value that has spaces"),
            ("tenant=acme and tenant=b", 16, "tenant is here twice"),
            ("tenant acme", 7, "expected = after tenant"),
            ("tenant=", 7, "tenant has no value"),
            ("tenant=''", 7, "tenant has no value"),
            ("tenant='ü and digest_type=alerts", 7, "this quote has no end"),
            ("tenant='ü' digest_type=alerts", 11, "expected `and`"),
        ] {
            let error = words.parse::<KeyFilter>().unwrap_err();
            assert!(error.problem.contains(problem) && error.at == at, "{words}: {error:?}");
            assert!(error.to_string().ends_with(&format!("\n    {}^", " ".repeat(at))), "{error}");
        }
    }
}
