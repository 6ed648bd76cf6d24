//! The parameters of a query. An unknown, a repeated or a wrong one is refused by its name.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use axum::http::Uri;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tidings_model::{
    foreign_text::cut_text,
    records::{Cursor, Page},
    when,
};
use url::form_urlencoded;

use super::refusal::Refusal;

/// Rows of a page.
const LIMIT: u32 = 50;
const MOST: u32 = 500;

/// The parameters that were not read yet.
#[derive(Debug)]
pub(super) struct Params(BTreeMap<String, String>);

impl Params {
    /// Reads the query of an address. `known` has the names that the route takes.
    pub fn read(uri: &Uri, known: &[impl AsRef<str>]) -> Result<Self, Refusal> {
        let known: Vec<_> = known.iter().map(AsRef::as_ref).collect();
        let mut params = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                return Err(Refusal::parameter(cut_text(&name, 64), format!("is not one of {}", known.join(", "))));
            }
            if value.contains(char::is_control) {
                return Err(Refusal::parameter(&name, "has a control character"));
            }
            if params.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Refusal::parameter(&name, "is given twice"));
            }
        }
        Ok(Self(params))
    }

    /// A text. An empty one counts as missing.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    /// A value that `read` reads, or refuses with what is wrong.
    pub fn with<T, E: Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Refusal> {
        let Some(value) = self.text(name) else { return Ok(None) };
        read(&value).map(Some).map_err(|error| Refusal::parameter(name, error.to_string()))
    }

    /// A value of a closed set.
    pub fn one_of<T: Copy>(
        &mut self,
        name: &str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, Refusal> {
        self.with(name, |value| {
            let names = || all.iter().map(|value| name_of(*value)).collect::<Vec<_>>().join(", ");
            let found = all.iter().copied().find(|known| name_of(*known) == value);
            found.ok_or_else(|| format!("is not one of {}", names()))
        })
    }

    /// A time, or a span before `now`.
    pub fn moment(&mut self, name: &str, now: Timestamp) -> Result<Option<Timestamp>, Refusal> {
        self.with(name, |value| when::moment(value, now))
    }

    /// `true` or `false`, which is the default.
    pub fn flag(&mut self, name: &str) -> Result<bool, Refusal> {
        Ok(self.with(name, |value| bool::from_str(value).map_err(|_| "is neither true nor false"))?.unwrap_or_default())
    }

    /// The page that `limit` and `after` name.
    pub fn page<K: DeserializeOwned>(&mut self) -> Result<Page<K>, Refusal> {
        let limit = self.with("limit", |value| {
            let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
            limit.ok_or_else(|| format!("is not a number from 1 to {MOST}"))
        })?;
        let after = self.with("after", |value| value.parse::<Cursor<K>>())?;
        Ok(Page { limit: limit.unwrap_or(LIMIT), after })
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, response::IntoResponse as _};
    use serde_json::Value;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn params(query: &str) -> Result<Params, Refusal> {
        let uri = format!("/v1/digests?{query}").parse().unwrap();
        Params::read(&uri, &["tenant", "since", "overdue", "limit", "after"])
    }

    async fn fault(refusal: Refusal) -> String {
        let body = to_bytes(refusal.into_response().into_body(), 4096).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let fault = &body["errors"][0];
        format!("{}: {}", fault["field"].as_str().unwrap(), fault["problem"].as_str().unwrap())
    }

    #[tokio::test]
    async fn a_wrong_parameter_is_refused_by_its_name() {
        for (query, says) in [
            ("tennant=acme", "tennant: is not one of tenant, since"),
            ("tenant=acme&tenant=zeta", "tenant: is given twice"),
            ("tenant=a%00", "tenant: has a control character"),
        ] {
            let said = fault(params(query).unwrap_err()).await;
            assert!(said.starts_with(says), "{said}");
        }
        for (query, says) in [
            ("since=yesterday", "since: is neither a time nor a span"),
            ("overdue=yes", "overdue: is neither true nor false"),
            ("limit=0", "limit: is not a number from 1 to 500"),
            ("limit=501", "limit: is not a number from 1 to 500"),
            ("after=ann", "after: is not a cursor of this listing"),
        ] {
            let mut params = params(query).unwrap();
            let read = params.moment("since", NOW).map(drop).and(params.flag("overdue").map(drop));
            let said = fault(read.and(params.page::<i64>().map(drop)).unwrap_err()).await;
            assert!(said.starts_with(says), "{said}");
        }
    }

    #[test]
    fn a_missing_or_empty_parameter_has_its_default() {
        let mut params = params("tenant=&since=1h").unwrap();
        assert_eq!(params.text("tenant"), None);
        assert_eq!(params.moment("since", NOW), Ok(Some(NOW - jiff::SignedDuration::from_hours(1))));
        assert_eq!(params.flag("overdue"), Ok(false));
        assert_eq!(params.page::<i64>(), Ok(Page { limit: 50, after: None }));
    }
}
