//! The description of a route: its request and its answers.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::parameter::{self, Header, Query, ResponseHeader};
use crate::problem::Problem;

const JSON: &str = "application/json";
/// The statuses that every route may answer.
const COMMON: [StatusCode; 6] = [
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::NOT_FOUND,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// A subject. Each has a section in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
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

impl Tag {
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
            Self::Events => "Events and retracts that services emit.",
            Self::Digests => "What is pending for a key, and the digests of the ledger.",
            Self::Commands => "Commands of operators to one key.",
            Self::Jobs => "Commands of operators to many keys.",
            Self::Pauses => "Pauses of a tenant, a digest type or both.",
            Self::DeadLetters => "What could not be decoded or used.",
            Self::Audit => "Who did what, when and why.",
            Self::Statistics => "Counts of digests and messages, and the state of the relays.",
            Self::Messages => "Single messages, and the outbox.",
            Self::Recipients => "The directory.",
            Self::Preferences => "What recipients chose.",
            Self::Suppressions => "Addresses that must not be mailed.",
        }
    }
}

/// A description of an operation.
pub(crate) struct Operation {
    pub tag: Tag,
    pub description: &'static str,
    pub query: Vec<Query>,
    pub headers: Vec<Header>,
    /// Media types of the body.
    pub body: Map<String, Value>,
    /// The first example of a body.
    pub example: Option<Value>,
    pub answers: BTreeMap<u16, Value>,
    pub problems: BTreeSet<StatusCode>,
    pub(super) schemas: Schemas,
}

impl Operation {
    pub fn new(tag: Tag, description: &'static str) -> Self {
        let (query, headers, body, answers) = (Vec::new(), Vec::new(), Map::new(), BTreeMap::new());
        let schemas = Schemas::default();
        Self { tag, description, query, headers, body, example: None, answers, problems: COMMON.into(), schemas }
    }

    pub fn query(mut self, query: &[Query]) -> Self {
        self.query.extend_from_slice(query);
        self
    }

    pub fn header(mut self, header: Header) -> Self {
        self.headers.push(header);
        self
    }

    /// Adds a JSON body, with examples that the tests send.
    pub fn body<T: ToSchema>(mut self, examples: &[(&str, Value)]) -> Self {
        let schema = self.schemas.add::<T>();
        self.content(JSON, &schema, examples)
    }

    /// Adds a body of another type, with examples that the tests send.
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

    /// Adds a schema that no type has.
    pub fn schema(mut self, name: &str, schema: Value) -> Self {
        self.schemas.put(name.to_owned(), schema);
        self
    }

    /// Adds an answer of success.
    pub fn answer<T: ToSchema>(self, status: u16, description: &str) -> Self {
        self.answer_with::<T>(status, description, &[])
    }

    /// Adds an answer of success with headers.
    pub fn answer_with<T: ToSchema>(mut self, status: u16, description: &str, headers: &[ResponseHeader]) -> Self {
        let schema = self.schemas.add::<T>();
        self.put_answer(status, description, &schema, headers)
    }

    /// Adds an answer with a page of rows.
    pub fn page<T: ToSchema>(mut self, description: &str) -> Self {
        let row = self.schemas.add::<T>();
        let next = json!({"type": "string", "description": "The cursor of the next page, if more rows follow: send it as after."});
        let rows = json!({"type": "array", "items": row});
        let page = json!({"type": "object", "required": ["rows"], "properties": {"rows": rows, "next": next}});
        self.put_answer(200, description, &page, &[])
    }

    fn put_answer(mut self, status: u16, description: &str, schema: &Value, headers: &[ResponseHeader]) -> Self {
        let headers: Vec<_> = [ResponseHeader::RequestId].into_iter().chain(headers.iter().copied()).collect();
        let answer = json!({
            "description": description,
            "headers": parameter::references(&headers),
            "content": {JSON: {"schema": schema}},
        });
        self.answers.insert(status, answer);
        self
    }

    /// Adds a link from an answer to another route, by its name: the parameter has the value of the expression.
    pub fn link(mut self, status: u16, to: &str, parameter: &str, expression: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["links"][to] = json!({"operationId": id(to), "parameters": {parameter: expression}});
        }
        self
    }

    /// Adds the status of a problem.
    pub fn problem(mut self, problem: Problem) -> Self {
        self.problems.insert(problem.parts().0);
        self
    }
}

/// The id of an operation, by the name of its route: `postEvents`.
pub(super) fn id(name: &str) -> String {
    format!("{}{}", name[..1].to_ascii_lowercase(), &name[1..])
}

/// The name of an example in the document.
fn name_of(summary: &str) -> String {
    summary.split(' ').collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// The name of the answer for all problems of a status: `NotFound`.
pub(super) fn problem_name(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or_default().replace(' ', "")
}

/// The schemas that the operations name.
#[derive(Default)]
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Adds the schema of a type and those that it names. Returns the reference to it.
    pub fn add<T: ToSchema>(&mut self) -> Value {
        let mut found = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut found);
        for (name, schema) in found {
            let mut schema = json!(schema);
            translate(&mut schema);
            self.put(name, schema);
        }
        json!({"$ref": format!("#/components/schemas/{}", T::name())})
    }

    /// Adds a schema by its name.
    pub fn put(&mut self, name: String, schema: Value) {
        let known = self.0.entry(name.clone()).or_insert_with(|| schema.clone());
        debug_assert_eq!(*known, schema, "two types have the schema name {name}");
    }

    pub fn extend(&mut self, others: Self) {
        for (name, schema) in others.0 {
            self.put(name, schema);
        }
    }

    pub fn into_json(self) -> Value {
        json!(self.0)
    }
}

/// The comments of types speak of `None`, which JSON calls `null`.
fn translate(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(description)) = fields.get_mut("description") {
                *description = description.replace("`None`", "`null`");
            }
            fields.values_mut().for_each(translate);
        }
        Value::Array(values) => values.iter_mut().for_each(translate),
        _ => {}
    }
}
