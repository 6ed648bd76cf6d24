//! Errors as problem details (RFC 9457). No error shows an address, a token or a path.

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
use tidings_model::api_token::Scope;
use utoipa::{
    ToSchema,
    openapi::{Array, Object, ObjectBuilder, Type, schema::SchemaType},
};

/// Seconds after which a refused request may come again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The remedy where nothing but the time is wrong.
const AGAIN: &str = "Send the request again after the seconds of Retry-After.";

/// Declares the problems: name, status, last part of the type, title and remedy. A problem with a value names an example of the value.
macro_rules! problems {
    ($($(#[$meta:meta])* $name:ident $(($value:ty = $example:expr))? = $status:ident $kind:literal, $title:literal, $detail:expr;)+) => {
        /// The reason for refusing a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Problem {
            $($(#[$meta])* $name $(($value))?,)+
        }

        impl Problem {
            /// Each problem, in the order of its declaration.
            pub const ALL: [Self; [$($kind),+].len()] = [$(Self::$name $(($example))?),+];

            /// The status, the last part of the type, the title, and the remedy.
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
    /// The body of a one-click request is not what RFC 8058 asks for.
    NotOneClick = BAD_REQUEST "not-one-click",
        "The body is not a one-click request",
        "Send List-Unsubscribe=One-Click, as multipart/form-data or application/x-www-form-urlencoded (RFC 8058).";
    /// The body is longer than the route takes.
    TooLarge = PAYLOAD_TOO_LARGE "too-large", "The body is too long", "Send a shorter body.";
    /// The body did not arrive in time.
    TooSlow = REQUEST_TIMEOUT "too-slow", "The body did not arrive in time", "Send the request again.";
    /// The gateway has as many requests in progress as it accepts.
    Busy = SERVICE_UNAVAILABLE "busy",
        "Too many requests are in progress",
        AGAIN;
    /// This client has as many requests in progress as it may have.
    TooMany = TOO_MANY_REQUESTS "too-many",
        "This client has too many requests in progress",
        AGAIN;
    /// The database cannot answer.
    Unavailable = SERVICE_UNAVAILABLE "unavailable",
        "The database does not answer",
        AGAIN;
    /// The request was not answered in time, or a fault ended it.
    Failed = SERVICE_UNAVAILABLE "failed",
        "The request was not answered",
        AGAIN;
    /// The request to the api has no token.
    NoToken = UNAUTHORIZED "no-token",
        "The request has no token",
        "Send Authorization: Bearer with a token of tidings tokens create.";
    /// The token is unknown, expired or revoked.
    WrongToken = UNAUTHORIZED "wrong-token",
        "The token is unknown, expired or revoked",
        "Send a token that tidings tokens list shows as valid.";
    /// The token does not allow the request.
    MissingScope(Scope = Scope::EventsWrite) = FORBIDDEN "missing-scope",
        "The token lacks the scope of this request",
        "Use a token with the scope that WWW-Authenticate names: tidings tokens create --scope SCOPE.";
    /// There is no such thing, or the token is not for its tenant.
    NotFound = NOT_FOUND "not-found", "There is no such thing", "Check the path, and the tenant of the token.";
    /// No table has the digest type of the request's only events.
    UnknownDigest = UNPROCESSABLE_ENTITY "unknown-digest",
        "No table of the configuration has the digest type",
        "Correct the digest type that the errors name, or add its table, and deploy gateways before workers.";
    /// The path has no such method.
    WrongMethod = METHOD_NOT_ALLOWED "wrong-method", "The path does not take this method", "Use the method that Allow names.";
    /// The token has sent more requests than its rate allows; it may send again after these seconds.
    TooFast(u64 = 1) = TOO_MANY_REQUESTS "too-fast",
        "The token sends too many requests",
        "Send the request again after the seconds of Retry-After, and more events in one request.";
    /// The client has named more unknown tokens than it may; it may send again after these seconds.
    UnknownTokens(u64 = 1) = TOO_MANY_REQUESTS "unknown-tokens",
        "This client sends too many unknown tokens",
        "Send a token that tidings tokens list shows as valid, after the seconds of Retry-After.";
    /// The body is of a type or an encoding that the route does not read.
    UnsupportedMedia = UNSUPPORTED_MEDIA_TYPE "unsupported-media",
        "The type or the encoding of the body is not supported",
        "Send a type and an encoding that the errors name.";
    /// The body is not what its type says.
    Unreadable = BAD_REQUEST "unreadable",
        "The body is not what its type says",
        "Correct what the errors name. The example is a body that the route takes.";
    /// The request has more items than one request may have.
    TooManyItems = PAYLOAD_TOO_LARGE "too-many-items", "The request has more than 10,000 items", "Send several requests.";
    /// None of the request's items could be accepted.
    NothingAccepted = BAD_REQUEST "nothing-accepted",
        "None of the items could be accepted",
        "Correct the fields that the errors name.";
    /// The parameters or headers of the request are wrong.
    WrongParameter = BAD_REQUEST "wrong-parameter",
        "A parameter or a header of the request is wrong",
        "Correct what the errors name.";
    /// The inbox has as much as it takes.
    InboxFull = SERVICE_UNAVAILABLE "inbox-full",
        "The inbox is full, because Temporal does not take its events",
        "Send the request again after the seconds of Retry-After. Nothing was stored.";
    /// Temporal, or the worker behind it, does not answer.
    NoAnswer = SERVICE_UNAVAILABLE "no-answer",
        "Temporal or its worker does not answer",
        AGAIN;
    /// The issuer of access tokens has not given its keys yet.
    NoIssuer = SERVICE_UNAVAILABLE "no-issuer",
        "The issuer of access tokens does not answer",
        AGAIN;
    /// The team's own directory of recipients does not answer.
    NoDirectory = SERVICE_UNAVAILABLE "no-directory",
        "The team's own directory of recipients does not answer",
        AGAIN;
    /// A field of the body is wrong.
    WrongBody = BAD_REQUEST "wrong-body", "A field of the body is wrong", "Correct the fields that the errors name.";
    /// The key was used for another content.
    OtherContent = CONFLICT "other-content",
        "The key was used for another content",
        "Send the new content under a new key.";
    /// The directory does not know the recipient.
    UnknownRecipient = UNPROCESSABLE_ENTITY "unknown-recipient",
        "The directory does not know the recipient",
        "Put the recipient into the directory, or name an address.";
    /// The address must not be mailed.
    Suppressed = UNPROCESSABLE_ENTITY "suppressed",
        "The address must not be mailed",
        "Do not send the message. The errors name the reason.";
    /// The template cannot make the message.
    Template = UNPROCESSABLE_ENTITY "template",
        "The template cannot make the message",
        "Correct the template or the variables. The errors say what is wrong.";
    /// The gateway lacks what a message is made with.
    CannotMake = SERVICE_UNAVAILABLE "cannot-make",
        "The gateway cannot make messages",
        "Its log says which template or DKIM key cannot be used. Correct that, and start the gateway again.";
    /// The state of a thing forbids the command.
    Conflict = CONFLICT "conflict",
        "The state of the thing forbids the command",
        "Read the reason in the errors. Nothing was changed.";
    /// The request does not name the version that it changes.
    NoVersion = PRECONDITION_REQUIRED "no-version",
        "The request does not name the version that it changes",
        "Read the thing, and send If-Match with its ETag, or with * for any version.";
    /// The thing has another version than the one that the request names.
    Changed = PRECONDITION_FAILED "changed",
        "The thing was changed meanwhile",
        "Read the thing again, and send If-Match with its ETag.";
    /// Something about an erased person came meanwhile.
    StillArriving = CONFLICT "still-arriving",
        "Something about the person came during the erasure",
        "Stop the producers of the person, then send the request again.";
}

/// The sections of the documentation, one for each problem.
const PAGES: &str = include_str!("../../docs/problems.md");

/// `GET /problems/{name}`, for everyone: what a problem means, and what to do.
pub(crate) async fn page(path: Result<Path<String>, PathRejection>) -> Response {
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
pub(crate) struct Details {
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

/// The schema of the faults: each has a field and a problem, and the number of its item or line if there are several.
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
        .property("line", number("The line of the body, counted from 1."));
    Array::new(fault)
}

impl Details {
    /// Reports if nothing of the request's body could be used.
    pub(crate) fn is_about_the_body(&self) -> bool {
        let problems = [Problem::Unreadable, Problem::UnsupportedMedia, Problem::NothingAccepted];
        problems.into_iter().any(|problem| self.kind == problem.address())
    }
}

impl Problem {
    /// The answer, with what is wrong in each part of the request.
    pub(crate) fn with_errors(self, errors: &[impl Serialize]) -> Response {
        let errors = errors.iter().map(|error| json!(error)).collect();
        self.answer(Details { errors: Some(errors), ..self.body() })
    }

    pub(crate) fn body(self) -> Details {
        let (status, _, title, detail) = self.parts();
        let detail = match self {
            Self::MissingScope(scope) => detail.replace("SCOPE", &scope.to_string()),
            _ => detail.to_owned(),
        };
        Details {
            kind: self.address(),
            title,
            status: status.as_u16(),
            detail,
            instance: None,
            errors: None,
            example: None,
        }
    }

    /// The address of the problem on the listener that answered. [`page`] answers there.
    pub(crate) fn address(self) -> String {
        format!("/problems/{}", self.parts().1)
    }

    fn answer(self, body: Details) -> Response {
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

    /// The challenge of RFC 6750.
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
        self.answer(self.body())
    }
}
