//! A rejected request with the faults of its parts.

use axum::{
    http::{HeaderMap, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidings_client::CommandError;
use tidings_model::{limits::InvalidField, without_addresses};
use utoipa::ToSchema;

use crate::problem::Problem;

/// Some HTTP clients, e.g. curl, send this type if none was chosen.
const FORM: &str = "application/x-www-form-urlencoded";

/// The fault of one field of a request or an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Fault {
    /// The field as the contract names it; empty for the whole.
    pub field: String,
    /// The fault in words.
    pub problem: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiRefusal {
    problem: Problem,
    faults: Vec<Fault>,
}

impl Fault {
    pub fn new(field: &str, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), problem: problem.into() }
    }
}

impl From<InvalidField> for Fault {
    fn from(invalid: InvalidField) -> Self {
        Self { field: invalid.field, problem: invalid.problem }
    }
}

impl ApiRefusal {
    pub fn parameter(name: &str, problem: impl Into<String>) -> Self {
        Self { problem: Problem::WrongParameter, faults: vec![Fault::new(name, problem)] }
    }

    pub fn header(fault: Fault) -> Self {
        Self { problem: Problem::WrongParameter, faults: vec![fault] }
    }

    pub fn body(fault: impl Into<Fault>) -> Self {
        Self { problem: Problem::WrongBody, faults: vec![fault.into()] }
    }

    pub fn wrong_fields(faults: Vec<Fault>) -> Self {
        Self { problem: Problem::WrongBody, faults }
    }

    /// The body does not match its media type.
    pub fn unreadable(problem: impl Into<String>) -> Self {
        Self::with_fault(Problem::Unreadable, "", problem)
    }

    pub fn media_type(headers: &HeaderMap, taken: &[&str]) -> Self {
        let is_of_a_form = headers.get(CONTENT_TYPE).is_some_and(|named| named == FORM);
        let found = if is_of_a_form {
            "is application/x-www-form-urlencoded, which curl sends by default"
        } else {
            "is not one of this route"
        };
        Self::with_fault(
            Problem::UnsupportedMedia,
            "Content-Type",
            format!("{found}; send Content-Type: {}", taken.join(" or ")),
        )
    }

    pub fn encoding() -> Self {
        Self::with_fault(
            Problem::UnsupportedMedia,
            "Content-Encoding",
            "is neither gzip nor zstd; send one of them, or none",
        )
    }

    pub fn with_fault(problem: Problem, field: &str, fault: impl Into<String>) -> Self {
        Self { problem, faults: vec![Fault::new(field, fault)] }
    }

    pub fn conflict(why: &str) -> Self {
        Self { problem: Problem::Conflict, faults: vec![Fault::new("", without_addresses(why))] }
    }
}

#[cfg(test)]
impl ApiRefusal {
    pub fn problem(&self) -> Problem {
        self.problem
    }

    pub fn fields(&self) -> Vec<&str> {
        self.faults.iter().map(|fault| fault.field.as_str()).collect()
    }
}

impl From<Problem> for ApiRefusal {
    fn from(problem: Problem) -> Self {
        Self { problem, faults: Vec::new() }
    }
}

impl From<tidings_store::StoreError> for ApiRefusal {
    fn from(error: tidings_store::StoreError) -> Self {
        tracing::warn!(%error, "database request failed");
        Problem::Unavailable.into()
    }
}

impl From<CommandError> for ApiRefusal {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Refused { why, .. } => Self::conflict(&why),
            CommandError::Paused { .. } | CommandError::NotStarted { .. } | CommandError::TasksFail { .. } => {
                Self::conflict(&error.to_string())
            }
            CommandError::Unanswered { .. } | CommandError::Temporal(_) => {
                tracing::warn!(%error, "no response to command");
                Problem::NoAnswer.into()
            }
        }
    }
}

impl IntoResponse for ApiRefusal {
    fn into_response(self) -> Response {
        if self.faults.is_empty() { self.problem.into_response() } else { self.problem.with_errors(&self.faults) }
    }
}
