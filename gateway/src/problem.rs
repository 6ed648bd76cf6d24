//! Errors as problem details (RFC 9457). No error shows an address, a token or a path.

use axum::{
    Json,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use tidings_model::api_token::Scope;

/// Seconds after which a refused request may come again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The body of a one-click request is not what RFC 8058 asks for.
    NotOneClick,
    /// The body is longer than the route takes.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// The gateway has as many requests in progress as it accepts.
    Busy,
    /// This client has as many requests in progress as it may have.
    TooMany,
    /// The database cannot answer.
    Unavailable,
    /// The request was not answered in time, or a fault ended it.
    Failed,
    /// The request to the api has no token.
    NoToken,
    /// The token is unknown, expired or revoked.
    WrongToken,
    /// The token does not allow the request.
    MissingScope(Scope),
    /// There is no such thing, or the token is not for its tenant.
    NotFound,
    /// The path has no such method.
    WrongMethod,
    /// The token has sent more requests than its rate allows; it may send again after these seconds.
    TooFast(u64),
    /// The body is of a type or an encoding that the route does not read.
    UnsupportedMedia,
    /// The body is not what its type says.
    Unreadable,
    /// The request has more items than one request may have.
    TooManyItems,
    /// None of the request's items could be accepted.
    NothingAccepted,
    /// The parameters or headers of the request are wrong.
    WrongParameter,
    /// The inbox has as much as it takes.
    InboxFull,
    /// Temporal, or the worker behind it, does not answer.
    NoAnswer,
    /// The issuer of access tokens has not given its keys yet.
    NoIssuer,
    /// The team's own directory of recipients does not answer.
    NoDirectory,
    /// A field of the body is wrong.
    WrongBody,
    /// The key was used for another content.
    OtherContent,
    /// The directory does not know the recipient.
    UnknownRecipient,
    /// The address must not be mailed.
    Suppressed,
    /// The template cannot make the message.
    Template,
    /// The gateway lacks what a message is made with.
    CannotMake,
    /// The state of a thing forbids the command.
    Conflict,
    /// The request does not name the version that it changes.
    NoVersion,
    /// The thing has another version than the one that the request names.
    Changed,
    /// Something about an erased person came meanwhile.
    StillArriving,
}

/// The body of a problem, kept with the answer for whoever adds to it.
#[derive(Clone, Debug)]
pub(crate) struct Details(pub Value);

impl Problem {
    /// The status, the last part of the type, the title, and the remedy.
    #[expect(clippy::too_many_lines, reason = "one arm for each problem")]
    const fn parts(self) -> (StatusCode, &'static str, &'static str, &'static str) {
        match self {
            Self::NotOneClick => (
                StatusCode::BAD_REQUEST,
                "not-one-click",
                "The body is not a one-click request",
                "Send List-Unsubscribe=One-Click, as multipart/form-data or application/x-www-form-urlencoded (RFC 8058).",
            ),
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too long", "Send a shorter body.")
            }
            Self::TooSlow => {
                (StatusCode::REQUEST_TIMEOUT, "too-slow", "The body did not arrive in time", "Send the request again.")
            }
            Self::Busy => (
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                "Too many requests are in progress",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::TooMany => (
                StatusCode::TOO_MANY_REQUESTS,
                "too-many",
                "This client has too many requests in progress",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::Unavailable => (
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The database does not answer",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::Failed => (
                StatusCode::SERVICE_UNAVAILABLE,
                "failed",
                "The request was not answered",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::NoToken => (
                StatusCode::UNAUTHORIZED,
                "no-token",
                "The request has no token",
                "Send Authorization: Bearer with a token of tidings tokens create.",
            ),
            Self::WrongToken => (
                StatusCode::UNAUTHORIZED,
                "wrong-token",
                "The token is unknown, expired or revoked",
                "Send a token that tidings tokens list shows as valid.",
            ),
            Self::MissingScope(_) => (
                StatusCode::FORBIDDEN,
                "missing-scope",
                "The token lacks the scope of this request",
                "Use a token with the scope that WWW-Authenticate names.",
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                "not-found",
                "There is no such thing",
                "Check the path, and the tenant of the token.",
            ),
            Self::WrongMethod => (
                StatusCode::METHOD_NOT_ALLOWED,
                "wrong-method",
                "The path does not take this method",
                "Use the method that Allow names.",
            ),
            Self::TooFast(_) => (
                StatusCode::TOO_MANY_REQUESTS,
                "too-fast",
                "The token sends too many requests",
                "Send the request again after the seconds of Retry-After, and more events in one request.",
            ),
            Self::UnsupportedMedia => (
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported-media",
                "The type or the encoding of the body is not supported",
                "Send a type and an encoding that the documentation names for the route.",
            ),
            Self::Unreadable => (
                StatusCode::BAD_REQUEST,
                "unreadable",
                "The body is not what its type says",
                "Send what Content-Type says, in a shape that the documentation names for the route.",
            ),
            Self::TooManyItems => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "too-many-items",
                "The request has more than 10,000 items",
                "Send several requests.",
            ),
            Self::NothingAccepted => (
                StatusCode::BAD_REQUEST,
                "nothing-accepted",
                "None of the items could be accepted",
                "Correct the fields that the errors name.",
            ),
            Self::WrongParameter => (
                StatusCode::BAD_REQUEST,
                "wrong-parameter",
                "A parameter or a header of the request is wrong",
                "Correct what the errors name.",
            ),
            Self::InboxFull => (
                StatusCode::SERVICE_UNAVAILABLE,
                "inbox-full",
                "The inbox is full, because Temporal does not take its events",
                "Send the request again after the seconds of Retry-After. Nothing was stored.",
            ),
            Self::NoAnswer => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no-answer",
                "Temporal or its worker does not answer",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::NoIssuer => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no-issuer",
                "The issuer of access tokens does not answer",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::WrongBody => (
                StatusCode::BAD_REQUEST,
                "wrong-body",
                "A field of the body is wrong",
                "Correct the fields that the errors name.",
            ),
            Self::OtherContent => (
                StatusCode::CONFLICT,
                "other-content",
                "The key was used for a message with another content",
                "Send a new message under a new key.",
            ),
            Self::NoDirectory => (
                StatusCode::SERVICE_UNAVAILABLE,
                "no-directory",
                "The team's own directory of recipients does not answer",
                "Send the request again after the seconds of Retry-After.",
            ),
            Self::UnknownRecipient => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "unknown-recipient",
                "The directory does not know the recipient",
                "Put the recipient into the directory, or name an address.",
            ),
            Self::Suppressed => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "suppressed",
                "The address must not be mailed",
                "Do not send the message. The errors name the reason.",
            ),
            Self::Template => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "template",
                "The template cannot make the message",
                "Correct the template or the variables. The errors say what is wrong.",
            ),
            Self::CannotMake => (
                StatusCode::SERVICE_UNAVAILABLE,
                "cannot-make",
                "The gateway cannot make messages",
                "Its log says which template or DKIM key cannot be used. Correct that, and start the gateway again.",
            ),
            Self::StillArriving => (
                StatusCode::CONFLICT,
                "still-arriving",
                "Something about the person came during the erasure",
                "Stop the producers of the person, then send the request again.",
            ),
            Self::NoVersion => (
                StatusCode::PRECONDITION_REQUIRED,
                "no-version",
                "The request does not name the version that it changes",
                "Read the thing, and send If-Match with its ETag, or with * for any version.",
            ),
            Self::Changed => (
                StatusCode::PRECONDITION_FAILED,
                "changed",
                "The thing was changed meanwhile",
                "Read the thing again, and send If-Match with its ETag.",
            ),
            Self::Conflict => (
                StatusCode::CONFLICT,
                "conflict",
                "The state of the thing forbids the command",
                "Read the reason in the errors. Nothing was changed.",
            ),
        }
    }
}

impl Problem {
    /// The answer, with what is wrong in each part of the request.
    pub(crate) fn with_errors(self, errors: &[impl Serialize]) -> Response {
        let mut body = self.body();
        body["errors"] = json!(errors);
        self.answer(body)
    }

    fn body(self) -> Value {
        let (status, kind, title, detail) = self.parts();
        json!({"type": format!("/problems/{kind}"), "title": title, "status": status.as_u16(), "detail": detail})
    }

    fn answer(self, body: Value) -> Response {
        let (status, ..) = self.parts();
        let mut response = (status, Json(&body)).into_response();
        response.extensions_mut().insert(Details(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            let retry = if let Self::TooFast(seconds) = self { seconds.into() } else { RETRY_SECONDS };
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
