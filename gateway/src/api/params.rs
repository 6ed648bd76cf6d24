//! Query and path parameters, and extractors for requests about a tenant. Unknown, repeated and invalid
//! parameters are rejected by name.

use std::{
    collections::{BTreeMap, btree_map},
    fmt::Display,
    str::FromStr,
};

use axum::{
    extract::{FromRequestParts, MatchedPath, Path},
    http::{Uri, request::Parts},
};
use jiff::Timestamp;
use serde::{
    Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, MapAccess, Visitor, value::MapAccessDeserializer},
    forward_to_deserialize_any,
};
use tidings_model::{
    command::CommandContext,
    foreign_text::cut_text,
    records::{PageCursor, PageRequest},
    when,
};
use url::form_urlencoded;

use super::{caller::ApiCaller, openapi::operation::Query, refusal::ApiRefusal};
use crate::problem::Problem;

/// Most rows per page.
const MOST: u32 = 500;

#[derive(Debug)]
pub(super) struct QueryParams(BTreeMap<String, String>);

impl QueryParams {
    /// `known` lists the parameters this route accepts.
    pub fn from_query(uri: &Uri, known: &[impl AsRef<str>]) -> Result<Self, ApiRefusal> {
        let known: Vec<_> = known.iter().map(AsRef::as_ref).collect();
        let mut params = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            if !known.contains(&name.as_ref()) {
                return Err(ApiRefusal::parameter(cut_text(&name, 64), format!("is not one of {}", known.join(", "))));
            }
            if value.contains(char::is_control) {
                return Err(ApiRefusal::parameter(&name, "has a control character"));
            }
            if params.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(ApiRefusal::parameter(&name, "is given twice"));
            }
        }
        Ok(Self(params))
    }

    /// An empty string counts as missing.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|value| !value.is_empty())
    }

    pub fn parse_with<T, E: Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ApiRefusal> {
        let Some(value) = self.text(name) else { return Ok(None) };
        read(&value).map(Some).map_err(|error| ApiRefusal::parameter(name, error.to_string()))
    }

    pub fn value<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ApiRefusal> {
        let text = self.0.get(name).filter(|value| !value.is_empty());
        text.map(|text| T::deserialize(ParameterText(text)).map_err(|wrong| wrong.into_refusal(name))).transpose()
    }

    pub fn filter<T: DeserializeOwned>(&mut self, caller: &ApiCaller) -> Result<T, ApiRefusal> {
        if let Some(tenant) = caller.tenant(self.text("tenant"))? {
            self.0.insert("tenant".to_owned(), tenant);
        }
        T::deserialize(MapAccessDeserializer::new(FilterFields { left: self.0.iter(), value: None }))
            .map_err(|ParameterError { field, problem }| ApiRefusal::parameter(&field, problem))
    }

    /// Takes a timestamp, or a span before `now`.
    pub fn take_time(&mut self, name: &str, now: Timestamp) -> Result<Option<Timestamp>, ApiRefusal> {
        self.parse_with(name, |value| when::parse_moment(value, now))
    }

    /// Defaults to `false`.
    pub fn flag(&mut self, name: &str) -> Result<bool, ApiRefusal> {
        Ok(self
            .parse_with(name, |value| bool::from_str(value).map_err(|_| "is neither true nor false"))?
            .unwrap_or_default())
    }

    pub fn page<K: DeserializeOwned>(&mut self) -> Result<PageRequest<K>, ApiRefusal> {
        let limit = self.parse_with("limit", |value| {
            let limit = value.parse().ok().filter(|limit| (1..=MOST).contains(limit));
            limit.ok_or_else(|| format!("is not a number from 1 to {MOST}"))
        })?;
        let after = self.parse_with("after", |value| value.parse::<PageCursor<K>>())?;
        Ok(PageRequest { limit: limit.unwrap_or(PageRequest::<K>::default().limit), after })
    }
}

/// Empty values count as missing.
struct FilterFields<'a> {
    left: btree_map::Iter<'a, String, String>,
    value: Option<(&'a String, &'a String)>,
}

impl<'de> MapAccess<'de> for FilterFields<'_> {
    type Error = ParameterError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ParameterError> {
        self.value = self.left.find(|(_, value)| !value.is_empty());
        self.value.map(|(name, _)| seed.deserialize(ParameterText(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ParameterError> {
        let (name, value) = self.value.ok_or_else(|| de::Error::custom("has no value"))?;
        seed.deserialize(ParameterText(value)).map_err(|wrong| ParameterError { field: name.clone(), ..wrong })
    }
}

struct ParameterText<'a>(&'a str);

impl<'de> Deserializer<'de> for ParameterText<'_> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        let flag = bool::from_str(self.0).map_err(|_| de::Error::custom("is neither true nor false"));
        visitor.visit_bool(flag?)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
struct ParameterError {
    field: String,
    problem: String,
}

impl ParameterError {
    fn into_refusal(self, name: &str) -> ApiRefusal {
        ApiRefusal::parameter(name, self.problem)
    }
}

impl de::Error for ParameterError {
    fn custom<T: Display>(problem: T) -> Self {
        Self { field: String::new(), problem: problem.to_string() }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(format!("is not one of {}", expected.join(", ")))
    }
}

/// Returns 404 if one is invalid.
pub(super) struct PathParams<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        // PostgreSQL cannot store NUL.
        if parts.uri.path().contains("%00") {
            return Err(Problem::NotFound);
        }
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(named)| Self(named)).map_err(|_| Problem::NotFound)
    }
}

/// Extractor for reading, or for a command with a body.
pub(super) struct TenantRead {
    pub caller: ApiCaller,
    pub tenant: String,
}

/// Extractor for one tenant, or for all of them if the token allows this.
pub(super) struct AnyTenant {
    pub caller: ApiCaller,
    pub tenant: Option<String>,
}

pub(super) struct TenantWrite {
    pub caller: ApiCaller,
    pub tenant: String,
    pub order: CommandContext,
}

impl TenantRead {
    pub const QUERY: [Query; 1] = [Query::Tenant];
}

impl<S: Send + Sync> FromRequestParts<S> for TenantRead {
    type Rejection = ApiRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiRefusal> {
        let caller = ApiCaller::from_parts(parts)?;
        let tenant = caller.one_tenant(QueryParams::from_query(&parts.uri, &Self::QUERY)?.text("tenant"))?;
        Ok(Self { caller, tenant })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AnyTenant {
    type Rejection = ApiRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiRefusal> {
        let caller = ApiCaller::from_parts(parts)?;
        let tenant = caller.tenant(QueryParams::from_query(&parts.uri, &TenantRead::QUERY)?.text("tenant"))?;
        Ok(Self { caller, tenant })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TenantWrite {
    type Rejection = ApiRefusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiRefusal> {
        Self::from_params(parts, QueryParams::from_query(&parts.uri, &Self::QUERY)?)
    }
}

impl TenantWrite {
    pub const QUERY: [Query; 2] = [Query::Tenant, Query::Why];

    pub fn from_params(parts: &Parts, mut params: QueryParams) -> Result<Self, ApiRefusal> {
        let caller = ApiCaller::from_parts(parts)?;
        let tenant = caller.one_tenant(params.text("tenant"))?;
        let order = order_of_request(parts, &caller, &mut params)?;
        Ok(Self { caller, tenant, order })
    }
}

/// The reason is the parameter `why`, or else the route, e.g. `PUT /v1/recipients/{user}`.
pub(super) fn order_of_request(
    parts: &Parts,
    caller: &ApiCaller,
    params: &mut QueryParams,
) -> Result<CommandContext, ApiRefusal> {
    let route = || {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        format!("{} {path}", parts.method)
    };
    caller.as_operator(params.text("why").unwrap_or_else(route))
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, response::IntoResponse as _};
    use serde_json::Value;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn params(query: &str) -> Result<QueryParams, ApiRefusal> {
        let uri = format!("/v1/ledger/digests?{query}").parse().unwrap();
        QueryParams::from_query(&uri, &["tenant", "since", "overdue", "limit", "after"])
    }

    async fn fault(refusal: ApiRefusal) -> String {
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
            let read = params.take_time("since", NOW).map(drop).and(params.flag("overdue").map(drop));
            let said = fault(read.and(params.page::<i64>().map(drop)).unwrap_err()).await;
            assert!(said.starts_with(says), "{said}");
        }
    }

    #[test]
    fn a_missing_or_empty_parameter_has_its_default() {
        let mut params = params("tenant=&since=1h").unwrap();
        assert_eq!(params.text("tenant"), None);
        assert_eq!(params.take_time("since", NOW), Ok(Some(NOW - jiff::SignedDuration::from_hours(1))));
        assert_eq!(params.flag("overdue"), Ok(false));
        assert_eq!(params.page::<i64>(), Ok(PageRequest { limit: 50, after: None }));
    }
}
