use serde_json::json;
use tidings_activities::operations::{erase, move_person};

use super::{
    MoveTo,
    bulk::Answer,
    fields::Row,
    view::{RecipientView, Rows},
};
use crate::{
    api::openapi::{
        operation::{Operation, Tag},
        parameter::Query,
    },
    problem::Problem,
};

const TAG: Tag = Tag::Recipients;

pub(crate) fn list() -> Operation {
    Operation::new(TAG, "The order is by tenant and user.")
        .query(&[
            Query::Tenant,
            Query::Address,
            Query::Zone,
            Query::Locale,
            Query::Suppressed,
            Query::Limit,
            Query::After,
        ])
        .answer::<Rows>(200, "A page of the directory.")
}

pub(crate) fn show() -> Operation {
    Operation::new(TAG, "The address is there only if the token has the scope recipients:read, too.")
        .query(&[Query::Tenant])
        .answer::<RecipientView>(200, "The row of the directory.")
}

pub(crate) fn put() -> Operation {
    let ann = json!({"address": "ann@example.net", "name": "Ann", "zone": "Europe/Berlin", "locale": "de"});
    Operation::new(TAG, "The body replaces everything that the directory has about the person.")
        .query(&[Query::Tenant, Query::Why])
        .body::<Row>(&[("A person", ann), ("An address alone", json!({"address": "ann@example.net"}))])
        .answer::<RecipientView>(200, "The person was known before.")
        .answer::<RecipientView>(201, "The person is new.")
        .problem(Problem::Conflict)
}

pub(crate) fn patch() -> Operation {
    let text = json!({"type": ["string", "null"]});
    let patch = json!({
        "type": "object",
        "additionalProperties": false,
        "description": "The fields to change. null clears one.",
        "properties": {"address": {"type": "string"}, "name": text, "zone": text, "locale": text},
    });
    let examples = [("Another zone", json!({"zone": "Asia/Tokyo", "locale": null}))];
    let reference = json!({"$ref": "#/components/schemas/RecipientPatch"});
    Operation::new(TAG, "The body is a JSON merge patch (RFC 7396). The last of two patches at the same moment counts.")
        .query(&[Query::Tenant, Query::Why])
        .schema("RecipientPatch", patch)
        .content("application/merge-patch+json", &reference, &examples)
        .content("application/json", &reference, &examples)
        .answer::<RecipientView>(200, "The row of the directory.")
        .problem(Problem::Conflict)
}

pub(crate) fn erase() -> Operation {
    Operation::new(
        TAG,
        "Erases the person everywhere. After a 503 a repeated request goes on; a 409 says that something \
         about the person came meanwhile. Folders in `unreachable_archives` were archived to and may have lines about the person, but the \
         gateway's machine lacks them: erase once more with `tidings recipients erase` where they are.",
    )
    .query(&[Query::Tenant, Query::Why])
    .answer::<erase::Answer>(200, "What was erased.")
    .problem(Problem::StillArriving)
    .problem(Problem::NoAnswer)
}

pub(crate) fn rename() -> Operation {
    moves(
        "Choices, consent, open windows, waiting messages and links go on under the other id. Let the producers use it first: `left` \
         has the keys that still got something, and a repeated request moves that, too. A 409 says that the other id is in use.",
    )
}

pub(crate) fn merge() -> Operation {
    moves(
        "The recipient goes, and the one in the body keeps address, name, zone and language. What either does not want, the person \
         does not want; of other choices the later one counts.",
    )
}

fn moves(description: &'static str) -> Operation {
    Operation::new(TAG, description)
        .query(&[Query::Tenant, Query::Why])
        .body::<MoveTo>(&[("Another id", json!({"to": "anna"}))])
        .answer::<move_person::Answer>(200, "What was moved.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}

pub(crate) fn post() -> Operation {
    let text = json!({"type": "string"});
    let lines =
        "{\"user\": \"ann\", \"address\": \"ann@example.net\"}\n{\"user\": \"bo\", \"address\": \"bo@example.net\"}\n";
    let table = "user,address,zone\nann,ann@example.net,Europe/Berlin\n";
    Operation::new(
        TAG,
        "NDJSON, or CSV with the columns user, address, and optionally tenant, name, zone and locale: 1 MiB \
         and 10,000 rows. What a row does not have stays as it is, and an empty value or a null clears it. Content-Encoding may be gzip or \
         zstd.",
    )
    .query(&[Query::Tenant, Query::Why])
    .content("application/x-ndjson", &text, &[("Two people", json!(lines))])
    .content("text/csv", &text, &[("A table", json!(table))])
    .answer::<Answer>(200, "At least one row is stored. Each row has a result.")
    .problem(Problem::Conflict)
}
