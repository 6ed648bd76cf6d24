use serde_json::json;

use super::{
    Again,
    posted::Posted,
    view::{AcceptedView, After, Rows, Story},
};
use crate::{
    api::{
        Endpoint,
        body::Why,
        openapi::{
            operation::{Operation, Tag},
            parameter::{Header, Query, ResponseHeader},
        },
    },
    problem::Problem,
};

const TAG: Tag = Tag::Messages;
const KEY: &str = "$request.body#/key";

pub(crate) fn post() -> Operation {
    let bodies = [
        (
            "Finished parts",
            json!({"key": "invoice-812", "to": {"user": "ann"}, "subject": "Your invoice", "text": "It is 12 euros."}),
        ),
        (
            "An attachment",
            json!({
                "key": "invoice-813",
                "to": {"address": "bo@example.net", "name": "Bo"},
                "subject": "Your invoice",
                "text": "See the file.",
                "attachments": [{"name": "invoice.txt", "type": "text/plain", "content": "MTIgZXVyb3M="}],
            }),
        ),
    ];
    Operation::new(
        TAG,
        "The message is in the outbox, and its workflow runs. A key that was used for another content is a \
         409; an unknown or suppressed recipient and a template that fails are a 422.",
    )
    .query(&[Query::Tenant])
    .header(Header::IdempotencyKey)
    .body::<Posted>(&bodies)
    .answer_with::<AcceptedView>(200, "The same message was handed over before.", &[ResponseHeader::Location])
    .answer_with::<AcceptedView>(201, "The message is new.", &[ResponseHeader::Location])
    .problem(Problem::OtherContent)
    .problem(Problem::UnknownRecipient)
    .link(200, Endpoint::GetMessage, "key", KEY)
    .link(201, Endpoint::GetMessage, "key", KEY)
    .link(201, Endpoint::CancelMessage, "key", KEY)
    .link(201, Endpoint::RetryMessage, "key", KEY)
}

pub(crate) fn list() -> Operation {
    Operation::new(TAG, "The outbox with the messages of digests; the latest message comes first.")
        .query(&[Query::Tenant, Query::MessageState, Query::Limit, Query::After])
        .answer::<Rows>(200, "A page of messages.")
}

pub(crate) fn show() -> Operation {
    Operation::new(TAG, "Addresses and links are there only if the token has the scope recipients:read, too.")
        .query(&[Query::Tenant])
        .answer::<Story>(200, "The message with its attempts and the reports of providers.")
}

pub(crate) fn cancel() -> Operation {
    Operation::new(TAG, "A message that had another end before is a 409.")
        .query(&[Query::Tenant])
        .body::<Why>(&[("A reason", json!({"why": "wrong invoice"}))])
        .answer::<After>(200, "The message is cancelled.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}

pub(crate) fn retry() -> Operation {
    let bodies = [
        ("A reason", json!({"why": "the mailbox has room again"})),
        ("Perhaps twice", json!({"why": "ticket 812", "may_duplicate": true})),
    ];
    Operation::new(TAG, "A message that waits, or that was sent, is a 409.")
        .query(&[Query::Tenant])
        .body::<Again>(&bodies)
        .answer::<After>(200, "The message is sent again.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}
