//! The parameters of paths, queries and headers, and the headers of answers.

use serde_json::{Map, Value, json};
use tidings_model::{
    limits::ID_BYTES,
    records::{DigestState, MessageState, Reason},
    report::By,
    window::Outcome,
};

/// A time, or a span with units.
const MOMENT: &str = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})|[0-9]{1,4}(m|h|d|w))$";

/// Declares the parameters: name of the component, name in the query, schema and description.
macro_rules! queries {
    ($($name:ident = $query:literal, $schema:expr, $description:literal;)+) => {
        /// A parameter of a query.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Query {
            $($name,)+
        }

        impl Query {
            pub const ALL: [Self; [$($query),+].len()] = [$(Self::$name),+];

            pub const fn component(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
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
                    // To `Params` an empty value is as none.
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
    Tenant = "tenant", text(), "The tenant. A token of one tenant need not name it; a token of all tenants must, where the request is about one.";
    Why = "why", line(), "The reason, for the audit trail. The default is the request.";
    RequiredWhy = "why", line(), "The reason, for the audit trail.";
    Limit = "limit", json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}), "The most rows of the page.";
    After = "after", cursor(), "The cursor that ended the page before.";
    Type = "type", text(), "The digest type.";
    User = "user", text(), "The user. A token of all tenants must name the tenant, too.";
    Outcome = "outcome", names(&Outcome::ALL.map(Outcome::name)), "The end of the digest.";
    DigestState = "state", names(&DigestState::ALL.map(DigestState::name)), "The state of the digest.";
    MessageState = "state", names(&MessageState::ALL.map(MessageState::name)), "The state of the message.";
    Since = "since", moment(), "The begin: a time as in RFC 3339, or a span before now such as 2h or 14d.";
    Until = "until", moment(), "The end: a time as in RFC 3339, or a span before now.";
    Window = "window", json!({"type": "string", "examples": ["24h"]}), "Another spelling of since and until: a span before now, or SINCE/UNTIL.";
    Overdue = "overdue", flag(), "Only digests that are past due and have no end. It excludes outcome.";
    Addresses = "addresses", flag(), "Shows addresses. The token needs the scope recipients:read, too.";
    All = "all", flag(), "Shows pauses that have ended, too.";
    Source = "source", names(&["events", "webhook"]), "The source of the letters.";
    Actor = "actor", text(), "The actor: tidings, recipient, or an operator's name.";
    Action = "action", text(), "The action, or its first words.";
    By = "by", names(&By::ALL.map(By::name)), "The property that divides the report.";
    Address = "address", text(), "The address, in any spelling.";
    Zone = "zone", text(), "The IANA time zone.";
    Locale = "locale", text(), "The language tag.";
    Suppressed = "suppressed", flag(), "Only recipients whose address is suppressed.";
    OfReason = "reason", names(&Reason::ALL.map(Reason::name)), "Only the suppression for this reason.";
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

/// A header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    IdempotencyKey,
    IfMatch,
    RequiredIfMatch,
    Prefer,
}

impl Header {
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
                "description": "Another spelling of the id of the event, message or command. A repeated request has no other effect.",
                "schema": {"type": "string", "minLength": 1, "maxLength": ID_BYTES, "pattern": "^[ -~]+$"},
            }),
            Self::IfMatch => json!({
                "name": "If-Match", "in": "header",
                "description": "The ETag that the caller saw, or * for any version.",
                "schema": tag,
            }),
            Self::RequiredIfMatch => json!({
                "name": "If-Match", "in": "header", "required": true,
                "description": "The ETag that the caller saw, or * for any version. Without it the answer is 428.",
                "schema": tag,
            }),
            Self::Prefer => json!({
                "name": "Prefer", "in": "header",
                "description": "handling=strict (RFC 7240) refuses the request with 409 if the id of an event was sent with other content.",
                "schema": {"type": "string", "examples": ["handling=strict"]},
            }),
        }
    }
}

/// A header of an answer.
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
            Self::RequestId => ("The id of the request.", text()),
            Self::Tag => ("The version of the thing, for If-Match.", text()),
            Self::Location => ("The path of the state of what was made.", text()),
            Self::RetryAfter => {
                ("Seconds after which the request may come again.", json!({"type": "integer", "minimum": 0}))
            }
            Self::Challenge => ("The challenge of RFC 6750. It names the missing scope.", text()),
        };
        json!({"description": description, "schema": schema})
    }
}

/// The headers of an answer, by reference.
pub(super) fn references(headers: &[ResponseHeader]) -> Map<String, Value> {
    let reference = |header: &ResponseHeader| {
        let name = header.name();
        (name.to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
    };
    headers.iter().map(reference).collect()
}

/// A parameter by reference.
pub(super) fn reference(component: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{component}")})
}

/// A parameter of a path, with an example that the tests use.
pub(super) fn in_path(path: &str, name: &str) -> Value {
    let uuid = json!({"type": "string", "format": "uuid", "examples": ["01234567-89ab-5def-8123-456789abcdef"]});
    let text = |example: &str| json!({"type": "string", "minLength": 1, "examples": [example]});
    let (description, schema) = match (name, path.split('/').nth(2)) {
        ("type", _) => ("The digest type.", text("activity")),
        ("user", _) => ("The recipient's id in the directory.", text("ann")),
        ("address", _) => ("The address.", text("ann@example.net")),
        ("key", Some("digests")) => (
            "The key, TENANT/TYPE/USER, in one part of the path: its slashes are written %2F.",
            text("acme/activity/ann"),
        ),
        ("key", _) => ("The key of the message. A slash is written %2F.", text("invoice-812")),
        ("id", Some("dead-letters")) => {
            ("The id of the letter. A slash is written %2F.", text("0192f0c1-7a55-7d3e-9c57-8d4e11f07a63.0"))
        }
        ("id", Some("pauses")) => ("The id of the pause.", uuid),
        ("id", Some("jobs")) => ("The id of the job.", uuid),
        _ => ("The id of the digest.", uuid),
    };
    json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
}
