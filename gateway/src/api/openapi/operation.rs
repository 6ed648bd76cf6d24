//! Describes a route for `OpenAPI`: request, parameters and responses.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use tidings_model::{
    limits::ID_BYTES,
    records::{DigestState, MessageState, SuppressionReason},
    report::ReportGrouping,
    window::DigestOutcome,
};
use utoipa::ToSchema;

use crate::problem::Problem;

const JSON: &str = "application/json";
/// Statuses any route can return.
const COMMON: [StatusCode; 6] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiTag {
    Events,
    Digests,
    Commands,
    Jobs,
    Pauses,
    DeadLetters,
    Audit,
    Statistics,
    Messages,
    Recipients,
    Preferences,
    Suppressions,
}

impl ApiTag {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "Events",
            Self::Digests => "Digests",
            Self::Commands => "Commands",
            Self::Jobs => "Jobs",
            Self::Pauses => "Pauses",
            Self::DeadLetters => "Dead letters",
            Self::Audit => "Audit trail",
            Self::Statistics => "Statistics",
            Self::Messages => "Messages",
            Self::Recipients => "Recipients",
            Self::Preferences => "Preferences",
            Self::Suppressions => "Suppressions",
        }
    }

    pub const fn description(self) -> &'static str {
        match self {
            Self::Events => "Events and retracts from services.",
            Self::Digests => "Pending events of a key, and digests of the ledger.",
            Self::Commands => "Operator commands for one key.",
            Self::Jobs => "Operator commands for many keys.",
            Self::Pauses => "Pauses of a tenant, a digest type or both.",
            Self::DeadLetters => "Events and webhooks that could not be decoded or used.",
            Self::Audit => "Who did what, when and why.",
            Self::Statistics => "Counts of digests and messages, and the state of the relays.",
            Self::Messages => "Single messages, and the outbox.",
            Self::Recipients => "The directory.",
            Self::Preferences => "Preferences and consent of recipients.",
            Self::Suppressions => "Addresses that must not get email.",
        }
    }
}

pub(crate) struct Operation {
    pub tag: ApiTag,
    pub description: &'static str,
    pub query: Vec<Query>,
    pub headers: Vec<RequestHeader>,
    /// By media type.
    pub body: Map<String, Value>,
    /// First example; the tests send it.
    pub example: Option<Value>,
    pub answers: BTreeMap<u16, Value>,
    pub problems: BTreeSet<StatusCode>,
    pub(super) schemas: SchemaSet,
}

impl Operation {
    pub fn new(tag: ApiTag, description: &'static str) -> Self {
        let (query, headers, body, answers) = (Vec::new(), Vec::new(), Map::new(), BTreeMap::new());
        let schemas = SchemaSet::default();
        Self { tag, description, query, headers, body, example: None, answers, problems: COMMON.into(), schemas }
    }

    pub fn query(mut self, query: &[Query]) -> Self {
        self.query.extend_from_slice(query);
        self
    }

    pub fn header(mut self, header: RequestHeader) -> Self {
        self.headers.push(header);
        self
    }

    pub fn body<T: ToSchema>(mut self, examples: &[(&str, Value)]) -> Self {
        let schema = self.schemas.add_type::<T>();
        self.content(JSON, &schema, examples)
    }

    pub fn content(mut self, media_type: &str, schema: &Value, examples: &[(&str, Value)]) -> Self {
        self.example = self.example.or_else(|| examples.first().map(|(_, value)| value.clone()));
        let example =
            |(summary, value): &(&str, Value)| (name_of(summary), json!({"summary": summary, "value": value}));
        let examples: Map<_, _> = examples.iter().map(example).collect();
        self.body.insert(media_type.to_owned(), json!({"schema": schema, "examples": examples}));
        let wrong = [Problem::WrongBody, Problem::TooLarge, Problem::TooSlow, Problem::UnsupportedMedia];
        self.problems.extend(wrong.map(|problem| problem.parts().0));
        self
    }

    /// Adds a body that is a file to client generators, because they would write a string as JSON.
    pub fn lines(self, media_type: &str, summary: &str, example: &str) -> Self {
        self.content(media_type, &json!({"type": "string", "format": "binary"}), &[(summary, json!(example))])
    }

    /// Adds a schema without a Rust type.
    pub fn schema(mut self, name: &str, schema: Value) -> Self {
        self.schemas.put_schema(name.to_owned(), schema);
        self
    }

    pub fn answer<T: ToSchema>(self, status: u16, description: &str) -> Self {
        self.answer_with::<T>(status, description, &[])
    }

    pub fn answer_with<T: ToSchema>(mut self, status: u16, description: &str, headers: &[ResponseHeader]) -> Self {
        let schema = self.schemas.add_type::<T>();
        self.put_answer(status, description, &schema, headers)
    }

    pub fn page<T: ToSchema>(mut self, description: &str) -> Self {
        let row = self.schemas.add_type::<T>();
        let next = json!({"type": "string", "description": "Cursor of the next page, if any: send it as after."});
        let rows = json!({"type": "array", "items": row});
        let page = json!({
            "type": "object", "required": ["rows"], "properties": {"rows": rows, "next": next}, "additionalProperties": true,
        });
        self.put_answer(200, description, &page, &[])
    }

    fn put_answer(mut self, status: u16, description: &str, schema: &Value, headers: &[ResponseHeader]) -> Self {
        let headers: Vec<_> = [ResponseHeader::RequestId].into_iter().chain(headers.iter().copied()).collect();
        let answer = json!({
            "description": description,
            "headers": references(&headers),
            "content": {JSON: {"schema": schema}},
        });
        self.answers.insert(status, answer);
        self
    }

    /// Links to another route by its endpoint's name. `parameter` gets the value of `expression`.
    pub fn link(mut self, status: u16, to: &str, parameter: &str, expression: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["links"][to] = json!({"operationId": operation_id(to), "parameters": {parameter: expression}});
        }
        self
    }

    pub fn problem(mut self, problem: Problem) -> Self {
        self.problems.insert(problem.parts().0);
        self
    }
}

/// E.g. `postEvents`.
pub(super) fn operation_id(name: &str) -> String {
    format!("{}{}", name[..1].to_ascii_lowercase(), &name[1..])
}

fn name_of(summary: &str) -> String {
    summary.split(' ').collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

pub(super) fn problem_name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or_default().replace(' ', "")
}

#[derive(Default)]
pub(super) struct SchemaSet(pub BTreeMap<String, Value>);

impl SchemaSet {
    pub fn add_type<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            let mut schema = json!(schema);
            translate_none(&mut schema);
            self.put_schema(name, schema);
        }
        json!({"$ref": format!("#/components/schemas/{}", T::name())})
    }

    pub fn put_schema(&mut self, name: String, schema: Value) {
        let known = self.0.entry(name.clone()).or_insert_with(|| schema.clone());
        debug_assert_eq!(*known, schema, "two types have the schema name {name}");
    }

    pub fn extend(&mut self, others: Self) {
        for (name, schema) in others.0 {
            self.put_schema(name, schema);
        }
    }
}

/// Replaces `None` in doc comments with `null`, the JSON word.
fn translate_none(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(description)) = fields.get_mut("description") {
                *description = description.replace("`None`", "`null`");
            }
            fields.values_mut().for_each(translate_none);
        }
        Value::Array(values) => values.iter_mut().for_each(translate_none),
        _ => {}
    }
}

/// Pattern for a timestamp, or a span with units.
const MOMENT: &str = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})|[0-9]{1,4}(m|h|d|w))$";

/// Declares query parameters: component name, query name, schema and description.
macro_rules! queries {
    ($($name:ident = $query:literal, $schema:expr, $description:literal;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Query {
            $($name,)+
        }

        impl Query {
            pub const ALL: [Self; [$($query),+].len()] = [$(Self::$name),+];

            /// Prefixed, because generators reject a name that a schema has, too.
            pub const fn component(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("Query", stringify!($name)),)+
                }
            }

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $query,)+
                }
            }

            pub fn in_json(self) -> Value {
                let (schema, description): (Value, &str) = match self {
                    $(Self::$name => ($schema, $description),)+
                };
                let required = matches!(self, Self::RequiredWhy);
                let (name, place) = (self.name(), "query");
                let mut parameter =
                    json!({"name": name, "in": place, "required": required, "description": description, "schema": schema});
                if !required {
                    // `QueryParams` treats an empty value as missing.
                    parameter["allowEmptyValue"] = json!(true);
                }
                parameter
            }
        }
    };
}

impl AsRef<str> for Query {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

queries! {
    Tenant = "tenant", text(), "Tenant. Required only with a token for all tenants, if the request is about one.";
    Why = "why", line(), "Reason for the audit trail. Defaults to the request.";
    RequiredWhy = "why", line(), "Reason for the audit trail.";
    Limit = "limit", json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}), "Maximum number of rows per page.";
    After = "after", cursor(), "Cursor at the end of the previous page.";
    DigestType = "digest_type", text(), "Digest type.";
    User = "user", text(), "User id. With a token for all tenants, name the tenant, too.";
    Outcome = "outcome", names(&DigestOutcome::ALL.map(DigestOutcome::name)), "Outcome of the digest.";
    DigestState = "state", names(&DigestState::ALL.map(DigestState::name)), "State of the digest.";
    MessageState = "state", names(&MessageState::ALL.map(MessageState::name)), "State of the message.";
    Since = "since", moment(), "Start: an RFC 3339 timestamp, or an age such as 2h or 14d.";
    Until = "until", moment(), "End: an RFC 3339 timestamp, or an age.";
    Window = "window", json!({"type": "string", "examples": ["24h"]}), "Shorthand for since and until: an age, or SINCE/UNTIL.";
    Overdue = "overdue", flag(), "Only digests past due without an outcome. Excludes outcome.";
    Addresses = "addresses", flag(), "Include addresses. The token needs the scope recipients:read, too.";
    All = "all", flag(), "Include ended pauses.";
    Source = "source", names(&["events", "webhook"]), "Source of the dead letters.";
    Actor = "actor", text(), "Actor: tidings, recipient, or an operator's name.";
    Action = "action", text(), "Action, or a prefix of it.";
    By = "by", names(&ReportGrouping::ALL.map(ReportGrouping::name)), "Group the report by this property.";
    Address = "address", text(), "Email address, in any spelling.";
    Zone = "zone", text(), "IANA time zone.";
    Locale = "locale", text(), "Language tag.";
    Suppressed = "suppressed", flag(), "Only recipients whose address is suppressed.";
    OfReason = "reason", names(&SuppressionReason::ALL.map(SuppressionReason::name)), "Only the suppression for this reason.";
}

fn text() -> Value {
    json!({"type": "string"})
}

fn line() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 500, "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$", "examples": ["ticket 812"]})
}

fn cursor() -> Value {
    json!({"type": "string", "pattern": "^[A-Za-z0-9_-]+$"})
}

fn moment() -> Value {
    json!({"type": "string", "pattern": MOMENT, "examples": ["24h"]})
}

fn flag() -> Value {
    json!({"type": "boolean", "default": false})
}

fn names(names: &[&str]) -> Value {
    json!({"type": "string", "enum": names})
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestHeader {
    IdempotencyKey,
    IfMatch,
    RequiredIfMatch,
    Prefer,
}

impl RequestHeader {
    pub const ALL: [Self; 4] = [Self::IdempotencyKey, Self::IfMatch, Self::RequiredIfMatch, Self::Prefer];

    pub const fn component(self) -> &'static str {
        match self {
            Self::IdempotencyKey => "IdempotencyKey",
            Self::IfMatch => "IfMatch",
            Self::RequiredIfMatch => "RequiredIfMatch",
            Self::Prefer => "Prefer",
        }
    }

    pub fn in_json(self) -> Value {
        let tag = json!({"type": "string", "pattern": r#"^(\*|"[!#-~]*")$"#, "examples": ["*"]});
        match self {
            Self::IdempotencyKey => json!({
                "name": "Idempotency-Key", "in": "header",
                "description": "Id of the event, message or command, as an alternative to the body. A repeated request has no further effect.",
                "schema": {"type": "string", "minLength": 1, "maxLength": ID_BYTES, "pattern": "^[ -~]+$"},
            }),
            Self::IfMatch => json!({
                "name": "If-Match", "in": "header",
                "description": "ETag of the version to change, or * for any version.",
                "schema": tag,
            }),
            Self::RequiredIfMatch => json!({
                "name": "If-Match", "in": "header", "required": true,
                "description": "ETag of the version to change, or * for any version. Without it the response is 428.",
                "schema": tag,
            }),
            Self::Prefer => json!({
                "name": "Prefer", "in": "header",
                "description": "handling=strict (RFC 7240) rejects the request with 409 if the id of an event was already used for different content.",
                "schema": {"type": "string", "examples": ["handling=strict"]},
            }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseHeader {
    RequestId,
    Tag,
    Location,
    RetryAfter,
    Challenge,
}

impl ResponseHeader {
    pub const ALL: [Self; 5] = [Self::RequestId, Self::Tag, Self::Location, Self::RetryAfter, Self::Challenge];

    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestId => "X-Request-Id",
            Self::Tag => "ETag",
            Self::Location => "Location",
            Self::RetryAfter => "Retry-After",
            Self::Challenge => "WWW-Authenticate",
        }
    }

    pub fn in_json(self) -> Value {
        let (description, schema) = match self {
            Self::RequestId => ("Request id.", text()),
            Self::Tag => ("Version of the resource, for If-Match.", text()),
            Self::Location => ("Path of the created resource.", text()),
            Self::RetryAfter => ("Seconds to wait before retrying.", json!({"type": "integer", "minimum": 0})),
            Self::Challenge => ("RFC 6750 challenge with the missing scope.", text()),
        };
        json!({"description": description, "schema": schema})
    }
}

pub(super) fn references(headers: &[ResponseHeader]) -> Map<String, Value> {
    let reference = |header: &ResponseHeader| {
        let name = header.name();
        (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
    };
    headers.iter().map(reference).collect()
}

pub(super) fn reference(component: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{component}")})
}

/// The tests use the example.
pub(super) fn in_path(path: &str, name: &str) -> Value {
    let uuid = json!({"type": "string", "format": "uuid", "examples": ["01234567-89ab-5def-8123-456789abcdef"]});
    let text = |example: &str| json!({"type": "string", "minLength": 1, "examples": [example]});
    let (description, schema) = match (name, path.split('/').nth(2)) {
        ("digest_type", _) => ("Digest type.", text("activity")),
        ("user", _) => ("Id of the recipient in the directory.", text("ann")),
        ("address", _) => ("Email address.", text("ann@example.net")),
        ("key", Some("digests")) => {
            ("The key, TENANT/TYPE/USER, as one path segment: write its slashes as %2F.", text("acme/activity/ann"))
        }
        ("key", _) => ("Key of the message. Write a slash as %2F.", text("invoice-812")),
        ("id", Some("dead-letters")) => {
            ("Id of the dead letter. Write a slash as %2F.", text("0192f0c1-7a55-7d3e-9c57-8d4e11f07a63.0"))
        }
        ("id", Some("pauses")) => ("Id of the pause.", uuid),
        ("id", Some("jobs")) => ("Id of the job.", uuid),
        _ => ("Id of the digest.", uuid),
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
}
