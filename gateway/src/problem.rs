//! Errors as problem details (RFC 9457, rule 45). They never contain an address, a token or a path.

use axum::{
    Json,
    extract::{Path, rejection::PathRejection},
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use tidings_model::api_token::TokenScope;
use utoipa::{
    ToSchema,
    openapi::{Array, Object, ObjectBuilder, Type, schema::SchemaType},
};

/// `Retry-After` for temporary problems.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// Remedy for temporary problems.
const AGAIN: &str = "Send the request again after the seconds of Retry-After.";

/// Declares a problem: variant, status, type name, title and remedy. A value needs an example.
macro_rules! problems {
    ($($(#[$meta:meta])* $name:ident $(($value:ty = $example:expr))? = $status:ident $kind:literal, $title:literal, $detail:expr;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Problem {
            $($(#[$meta])* $name $(($value))?,)+
        }

        impl Problem {
            pub const ALL: [Self; [$($kind),+].len()] = [$(Self::$name $(($example))?),+];

            #[must_use]
            pub const fn parts(self) -> (StatusCode, &'static str, &'static str, &'static str) {
                match self {
                    $(Self::$name { .. } => (StatusCode::$status, $kind, $title, $detail),)+
                }
            }
        }
    };
}

problems! {
    NotOneClick = BAD_REQUEST "not-one-click",
        "The body is not a one-click request",
        "Send List-Unsubscribe=One-Click, as multipart/form-data or application/x-www-form-urlencoded (RFC 8058).";
    TooLarge = PAYLOAD_TOO_LARGE "too-large", "Request body too large", "Send a shorter body.";
    TooSlow = REQUEST_TIMEOUT "too-slow", "Request body timed out", "Send the request again.";
    Busy = SERVICE_UNAVAILABLE "busy",
        "Server is overloaded",
        AGAIN;
    TooMany = TOO_MANY_REQUESTS "too-many",
        "Too many concurrent requests",
        AGAIN;
    Unavailable = SERVICE_UNAVAILABLE "unavailable",
        "Database unavailable",
        AGAIN;
    Failed = SERVICE_UNAVAILABLE "failed",
        "Request failed",
        AGAIN;
    NoToken = UNAUTHORIZED "no-token",
        "Missing token",
        "Send Authorization: Bearer with a token of tidings tokens create.";
    WrongToken = UNAUTHORIZED "wrong-token",
        "Invalid token",
        "Send a token that tidings tokens list shows as valid.";
    MissingScope(TokenScope = TokenScope::EventsWrite) = FORBIDDEN "missing-scope",
        "Missing scope",
        "Use a token with the scope that WWW-Authenticate names: tidings tokens create --scope SCOPE.";
    /// Also returned if the token is not valid for the tenant.
    NotFound = NOT_FOUND "not-found", "Not found", "Check the path, and the tenant of the token.";
    /// The request has only events with an unknown digest type.
    UnknownDigest = UNPROCESSABLE_ENTITY "unknown-digest",
        "Unknown digest type",
        "Correct the digest type that the errors name, or add its table, and deploy gateways before workers.";
    WrongMethod = METHOD_NOT_ALLOWED "wrong-method", "Method not allowed", "Use the method that Allow names.";
    /// The client should wait this many seconds.
    TooFast(u64 = 1) = TOO_MANY_REQUESTS "too-fast",
        "Rate limit exceeded",
        "Send the request again after the seconds of Retry-After, and more events in one request.";
    /// The client should wait this many seconds.
    UnknownTokens(u64 = 1) = TOO_MANY_REQUESTS "unknown-tokens",
        "Too many unknown tokens",
        "Send a token that tidings tokens list shows as valid, after the seconds of Retry-After.";
    UnsupportedMedia = UNSUPPORTED_MEDIA_TYPE "unsupported-media",
        "Unsupported media type",
        "Send a type and an encoding that the errors name.";
    Unreadable = BAD_REQUEST "unreadable",
        "Malformed request body",
        "Correct what the errors name. The example is a body that the route takes.";
    TooManyItems = PAYLOAD_TOO_LARGE "too-many-items", "More than 10,000 items in one request", "Send several requests.";
    NothingAccepted = BAD_REQUEST "nothing-accepted",
        "No item was accepted",
        "Correct the fields that the errors name.";
    WrongParameter = BAD_REQUEST "wrong-parameter",
        "Invalid parameter or header",
        "Correct what the errors name.";
    InboxFull = SERVICE_UNAVAILABLE "inbox-full",
        "Inbox full, because Temporal does not accept events",
        "Send the request again after the seconds of Retry-After. Nothing was stored.";
    NoAnswer = SERVICE_UNAVAILABLE "no-answer",
        "Temporal or its workers do not respond",
        AGAIN;
    NoIssuer = SERVICE_UNAVAILABLE "no-issuer",
        "Token issuer unavailable",
        AGAIN;
    NoDirectory = SERVICE_UNAVAILABLE "no-directory",
        "Team directory unavailable",
        AGAIN;
    WrongBody = BAD_REQUEST "wrong-body", "Invalid field in request body", "Correct the fields that the errors name.";
    OtherContent = CONFLICT "other-content",
        "Idempotency key already used for different content",
        "Send the new content under a new key.";
    UnknownRecipient = UNPROCESSABLE_ENTITY "unknown-recipient",
        "Unknown recipient",
        "Put the recipient into the directory, or name an address.";
    Suppressed = UNPROCESSABLE_ENTITY "suppressed",
        "Address suppressed",
        "Do not send the message. The errors name the reason.";
    Template = UNPROCESSABLE_ENTITY "template",
        "Template cannot render the message",
        "Correct the template or the variables. The errors say what is wrong.";
    CannotMake = SERVICE_UNAVAILABLE "cannot-make",
        "Gateway cannot render messages",
        "Its log says which template or DKIM key cannot be used. Correct that, and start the gateway again.";
    Conflict = CONFLICT "conflict",
        "Not possible in the current state",
        "Read the reason in the errors. Nothing was changed.";
    NoVersion = PRECONDITION_REQUIRED "no-version",
        "Missing If-Match",
        "Get the resource, and send If-Match with its ETag, or with * for any version.";
    Changed = PRECONDITION_FAILED "changed",
        "Modified concurrently",
        "Get the resource again, and send If-Match with its new ETag.";
    StillArriving = CONFLICT "still-arriving",
        "Data about the person arrived during the erasure",
        "Stop the producers of the person, then send the request again.";
}

/// One section per problem.
const PAGES: &str = include_str!("../../docs/problems.md");

/// `GET /problems/{name}`: explains a problem and its remedy. Public.
pub(crate) async fn problem_page(path: Result<Path<String>, PathRejection>) -> Response {
    let section = path.ok().and_then(|Path(name)| section(&name));
    match section {
        Some(section) => ([(CONTENT_TYPE, "text/plain; charset=utf-8")], section).into_response(),
        None => Problem::NotFound.into_response(),
    }
}

fn section(name: &str) -> Option<&'static str> {
    PAGES.split("\n## ").skip(1).find(|section| section.lines().next() == Some(name))
}

/// The body of a problem (RFC 9457).
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemDetails {
    /// The stable name of the problem.
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    /// The remedy.
    detail: String,
    /// The id of the request, as in `X-Request-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The faults of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = faults)]
    errors: Option<Vec<Value>>,
    /// A body that the route takes, if that of the request cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub example: Option<Value>,
}

fn any_json() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("A body that the route takes, if that of the request cannot be read."))
        .build()
}

/// Each fault has a field and a problem, and e.g. the index or line of its item.
fn faults() -> Array {
    let text = |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let number = |description: &str| ObjectBuilder::new().schema_type(Type::Integer).description(Some(description));
    let fault = ObjectBuilder::new()
        .property("field", text("The field or parameter; empty for the whole."))
        .required("field")
        .property("problem", text("What is wrong."))
        .required("problem")
        .property("type", text("The problem of this event, where it has one of its own: `/problems/unknown-digest`."))
        .property("index", number("The number of the event, counted from 0."))
        .property("event_id", text("The id of the event, if it could be read."))
        .property("line", number("The line of the body, counted from 1."));
    Array::new(fault)
}

impl ProblemDetails {
    /// Returns `true` if no part of the body could be used.
    pub(crate) fn is_about_the_body(&self) -> bool {
        let problems = [Problem::Unreadable, Problem::UnsupportedMedia, Problem::NothingAccepted];
        problems.into_iter().any(|problem| self.kind == problem.type_path())
    }
}

impl Problem {
    pub(crate) fn with_errors(self, errors: &[impl Serialize]) -> Response {
        let errors = errors.iter().map(|error| json!(error)).collect();
        self.build_response(ProblemDetails { errors: Some(errors), ..self.body() })
    }

    pub(crate) fn body(self) -> ProblemDetails {
        let (status, _, title, detail) = self.parts();
        let detail = match self {
            Self::MissingScope(scope) => detail.replace("SCOPE", &scope.to_string()),
            _ => detail.to_owned(),
        };
        ProblemDetails {
            kind: self.type_path(),
            title,
            status: status.as_u16(),
            detail,
            instance: None,
            errors: None,
            example: None,
        }
    }

    /// [`problem_page`] serves this path on the same listener.
    pub(crate) fn type_path(self) -> String {
        format!("/problems/{}", self.parts().1)
    }

    fn build_response(self, body: ProblemDetails) -> Response {
        let (status, ..) = self.parts();
        let mut response = (status, Json(&body)).into_response();
        response.extensions_mut().insert(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let retry = match self {
                Self::TooFast(seconds) | Self::UnknownTokens(seconds) => seconds.into(),
                _ => RETRY_SECONDS,
            };
            headers.insert(RETRY_AFTER, retry);
        }
        if let Some(challenge) = self.challenge() {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// `WWW-Authenticate` challenge (RFC 6750).
    fn challenge(self) -> Option<HeaderValue> {
        let challenge = match self {
            Self::NoToken => "Bearer realm=\"tidings\"".to_owned(),
            Self::WrongToken => "Bearer realm=\"tidings\", error=\"invalid_token\"".to_owned(),
            Self::MissingScope(scope) => {
                format!("Bearer realm=\"tidings\", error=\"insufficient_scope\", scope=\"{scope}\"")
            }
            _ => return None,
        };
        HeaderValue::try_from(challenge).ok()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.build_response(self.body())
    }
}
