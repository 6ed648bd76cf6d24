//! The description of a route: its request and its answers.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    parameter::{self, Header, Query, ResponseHeader},
    schemas::Schemas,
};
use crate::{api::endpoint::Endpoint, problem::Problem};

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
    description: &'static str,
    query: Vec<Query>,
    headers: Vec<Header>,
    /// Media types of the body.
    body: Map<String, Value>,
    /// The first example of a body.
    pub(super) example: Option<Value>,
    answers: BTreeMap<u16, Value>,
    problems: BTreeSet<StatusCode>,
    schemas: Schemas,
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

    /// Adds a link from an answer to another route: the parameter has the value of the expression.
    pub fn link(mut self, status: u16, to: Endpoint, parameter: &str, expression: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["links"][to.name()] = json!({"operationId": id(to), "parameters": {parameter: expression}});
        }
        self
    }

    /// Adds the status of a problem.
    pub fn problem(mut self, problem: Problem) -> Self {
        self.problems.insert(problem.parts().0);
        self
    }

    /// The operation in the document.
    pub(super) fn in_json(self, endpoint: Endpoint, schemas: &mut Schemas) -> Value {
        schemas.extend(self.schemas);
        let path = endpoint.documented_path().split('{').skip(1).filter_map(|part| part.split('}').next());
        let path = path.map(|name| parameter::in_path(endpoint, name));
        let query = self.query.iter().map(|query| parameter::reference(query.component()));
        let headers = self.headers.iter().map(|header| parameter::reference(header.component()));
        let problem = |status: StatusCode| {
            let reference = format!("#/components/responses/{}", problem_name(status));
            (status.as_str().to_owned(), json!({"$ref": reference}))
        };
        let answers = self.answers.into_iter().map(|(status, answer)| (status.to_string(), answer));
        let mut operation = json!({
            "operationId": id(endpoint),
            "tags": [self.tag.name()],
            "summary": endpoint.summary().trim_end_matches('.'),
            "description": format!("{} Scope: `{}`.", self.description, endpoint.scope()),
            "x-scope": endpoint.scope(),
            "parameters": path.chain(query).chain(headers).collect::<Vec<_>>(),
            "responses": answers.chain(self.problems.into_iter().map(problem)).collect::<Map<_, _>>(),
        });
        if !self.body.is_empty() {
            operation["requestBody"] = json!({"required": true, "content": self.body});
        }
        operation
    }
}

/// The id of an operation: `postEvents`.
fn id(endpoint: Endpoint) -> String {
    let name = endpoint.name();
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
