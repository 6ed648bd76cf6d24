use serde_json::json;
use tidings_activities::operations::preview::PreviewView;
use tidings_model::command::{Dropped, Flushed, Held, Released, Reopened, Retimed};

use super::{HoldTerms, ReopenTerms, RetimeTerms};
use crate::{
    api::{
        body::Why,
        openapi::{
            operation::{Operation, Tag},
            parameter::{Header, Query},
        },
    },
    problem::Problem,
};

const REASON: &str = "ticket 812";

/// A command to the workflow of a key.
fn command(description: &'static str) -> Operation {
    Operation::new(Tag::Commands, description)
        .header(Header::IdempotencyKey)
        .problem(Problem::Conflict)
        .problem(Problem::OtherContent)
        .problem(Problem::NoAnswer)
}

pub(crate) fn flush() -> Operation {
    command(
        "The window is due at once, past spread, quiet hours and throttle. A hold, a pause and a withdrawn \
         consent still count.",
    )
    .query(&[Query::Tenant])
    .body::<Why>(&[("A reason", json!({"why": REASON}))])
    .answer::<Flushed>(200, "The events that go out.")
}

pub(crate) fn hold() -> Operation {
    command("The key collects events and sends nothing until the hold ends.")
        .query(&[Query::Tenant])
        .body::<HoldTerms>(&[("For two hours", json!({"why": "wrong prices", "until": "2h"}))])
        .answer::<Held>(200, "The events that wait.")
}

pub(crate) fn release() -> Operation {
    command("What is overdue goes out at once.")
        .query(&[Query::Tenant])
        .body::<Why>(&[("A reason", json!({"why": REASON}))])
        .answer::<Released>(200, "The events that wait, and their time.")
}

pub(crate) fn drop() -> Operation {
    command("The events stay in the ledger, and a digest in delivery ends, unless an attempt is past the dot.")
        .query(&[Query::Tenant])
        .body::<Why>(&[("A reason", json!({"why": REASON}))])
        .answer::<Dropped>(200, "The events that go nowhere.")
}

pub(crate) fn delete_by_key() -> Operation {
    command("The command drop, with the key in one part of the path and the reason in the query.")
        .query(&[Query::Tenant, Query::RequiredWhy])
        .answer::<Dropped>(200, "The events that go nowhere.")
}

pub(crate) fn retime() -> Operation {
    let bodies = [
        ("In a quarter of an hour", json!({"why": REASON, "at": "15m"})),
        ("By the file of today", json!({"why": REASON})),
    ];
    command("Without at the deadline is what the configuration of today and the recipient's choices make.")
        .query(&[Query::Tenant])
        .body::<RetimeTerms>(&bodies)
        .answer::<Retimed>(200, "The deadline before and now.")
}

pub(crate) fn reopen() -> Operation {
    command("A digest that was dropped or failed goes out under its own id, and collects nothing new.")
        .query(&[Query::Tenant])
        .body::<ReopenTerms>(&[("The latest digest", json!({"why": REASON}))])
        .answer::<Reopened>(200, "The events that go out.")
}

pub(crate) fn preview() -> Operation {
    Operation::new(Tag::Commands, "Nothing is claimed, stored or sent. If no window is open, the answer is 404.")
        .query(&[Query::Tenant])
        .answer::<PreviewView>(200, "The message and its window.")
        .problem(Problem::Conflict)
        .problem(Problem::NoAnswer)
}
