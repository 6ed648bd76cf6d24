//! Generates the `OpenAPI` 3.1 document from [`Endpoint`], the request and response types, and [`Problem`].
//! Each handler has a function beside it with the description.

use std::{collections::BTreeSet, sync::LazyLock};

use axum::{
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
    },
    response::{IntoResponse as _, Response},
};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use tidings_model::{api_token::TokenScope, hex};

use super::{endpoint::Endpoint, if_match::etag};
use crate::problem::{Problem, ProblemDetails};

pub(super) mod operation;
mod shapes;
#[cfg(test)]
mod tests;

use operation::{Operation, Query, RequestHeader, ResponseHeader, SchemaSet};

pub(super) fn example_body(endpoint: Endpoint) -> Option<Value> {
    endpoint.described().example
}

const TOKEN: &str = "token";

#[must_use]
pub fn document() -> Value {
    let mut schemas = SchemaSet::default();
    schemas.add_type::<ProblemDetails>();
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    for endpoint in Endpoint::ALL {
        let operation = endpoint.described();
        if !tags.contains(&operation.tag) {
            tags.push(operation.tag);
        }
        let (method, path) = (endpoint.method().as_str().to_ascii_lowercase(), endpoint.documented_path());
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[&method] = in_json(endpoint, operation, &mut schemas);
    }
    let tags: Vec<_> = tags.iter().map(|tag| json!({"name": tag.name(), "description": tag.description()})).collect();
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "Tidings",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "contact": {"name": "Tidings", "url": env!("CARGO_PKG_REPOSITORY")},
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The API listener of a gateway: api_listen in tidings.toml."}],
        "security": [{TOKEN: []}],
        "tags": tags,
        "components": {
            "schemas": shapes::shaped(&schemas.0, &paths),
            "parameters": parameters(),
            "headers": headers(),
            "responses": problems(),
            "securitySchemes": {TOKEN: scheme()},
        },
        "paths": paths,
    })
}

fn in_json(endpoint: Endpoint, operation: Operation, schemas: &mut SchemaSet) -> Value {
    schemas.extend(operation.schemas);
    let path = endpoint.documented_path().split('{').skip(1).filter_map(|part| part.split('}').next());
    let path = path.map(|name| operation::in_path(endpoint.documented_path(), name));
    let query = operation.query.iter().map(|query| operation::reference(query.component()));
    let headers = operation.headers.iter().map(|header| operation::reference(header.component()));
    let problem = |status: StatusCode| {
        let reference = format!("#/components/responses/{}", operation::problem_name(status));
        (status.as_str().to_owned(), json!({"$ref": reference}))
    };
    let answers = operation.answers.into_iter().map(|(status, answer)| (status.to_string(), answer));
    let mut described = json!({
        "operationId": operation::operation_id(endpoint.name()),
        "tags": [operation.tag.name()],
        "summary": endpoint.summary().trim_end_matches('.'),
        "description": format!("{} Scope: `{}`.", operation.description, endpoint.scope()),
        "x-scope": endpoint.scope(),
        "parameters": path.chain(query).chain(headers).collect::<Vec<_>>(),
        "responses": answers.chain(operation.problems.into_iter().map(problem)).collect::<Map<_, _>>(),
    });
    if !operation.body.is_empty() {
        described["requestBody"] = json!({"required": true, "content": operation.body});
    }
    described
}

const DESCRIPTION: &str = "Events and messages in, and everything that operators do. An answer of success means that the effect is \
    durable. An error is a problem detail (RFC 9457) with a stable type and a remedy. The answer has the request's id in \
    X-Request-Id: that of the request, if it has one of at most 64 letters, digits, -, _ and ., or else a new one.";

#[must_use]
pub fn text() -> String {
    format!("{:#}\n", document())
}

fn parameters() -> Map<String, Value> {
    let queries = Query::ALL.into_iter().map(|query| (query.component().to_owned(), query.in_json()));
    let headers = RequestHeader::ALL.into_iter().map(|header| (header.component().to_owned(), header.in_json()));
    queries.chain(headers).collect()
}

fn headers() -> Map<String, Value> {
    ResponseHeader::ALL.into_iter().map(|header| (header.name().to_owned(), header.in_json())).collect()
}

fn scheme() -> Value {
    let scopes: Vec<_> = TokenScope::ALL.iter().map(|scope| format!("`{scope}`")).collect();
    let description = format!(
        "A token of `tidings tokens create`, or an access token (RFC 9068) of the configured issuer. The scope that a route \
         needs is its x-scope. The scopes are {}.",
        scopes.join(", ")
    );
    json!({"type": "http", "scheme": "bearer", "bearerFormat": "tdg_ID_SECRET", "description": description})
}

fn problems() -> Map<String, Value> {
    let statuses: BTreeSet<_> = api_problems().map(|problem| problem.parts().0).collect();
    let answer = |status: StatusCode| {
        let of_status = || api_problems().filter(move |problem| problem.parts().0 == status);
        let example = |problem: Problem| {
            let (_, kind, title, _) = problem.parts();
            (kind.to_owned(), json!({"summary": title, "value": problem.body()}))
        };
        let kinds: Vec<_> = of_status().map(|problem| format!("`/problems/{}`", problem.parts().1)).collect();
        let mut headers = vec![ResponseHeader::RequestId];
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => headers.push(ResponseHeader::Challenge),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => headers.push(ResponseHeader::RetryAfter),
            _ => {}
        }
        let answer = json!({
            "description": format!("A problem: {}.", kinds.join(", ")),
            "headers": operation::references(&headers),
            "content": {"application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": of_status().map(example).collect::<Map<_, _>>(),
            }},
        });
        (operation::problem_name(status), answer)
    };
    statuses.into_iter().map(answer).collect()
}

fn api_problems() -> impl Iterator<Item = Problem> {
    // `WrongMethod` has no route, and one-click requests use the public listener.
    Problem::ALL.into_iter().filter(|problem| !matches!(problem, Problem::WrongMethod | Problem::NotOneClick))
}

/// `GET /openapi.json`. Public, because it contains no secret.
pub(super) async fn serve(headers: HeaderMap) -> Response {
    static SERVED: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
        let text = text();
        let tag = hex(&digest(&SHA256, text.as_bytes()).as_ref()[..16]);
        (text, etag(&tag))
    });
    let (text, tag) = &*SERVED;
    let cached = [(ETAG, tag.clone()), (CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    if headers.get(IF_NONE_MATCH) == Some(tag) {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    (cached, [(CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}
