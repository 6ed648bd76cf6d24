use serde_json::json;

use super::{PauseEnded, PauseStarted, Rows, Terms, Why};
use crate::api::openapi::{
    operation::{Operation, Tag},
    parameter::Query,
};

const TAG: Tag = Tag::Pauses;

pub(crate) fn list() -> Operation {
    Operation::new(TAG, "The pauses of a tenant are its own and those of all tenants.")
        .query(&[Query::Tenant, Query::All])
        .answer::<Rows>(200, "The pauses.")
}

pub(crate) fn pause() -> Operation {
    let bodies = [
        ("A digest type", json!({"where": "type=activity", "why": "wrong prices", "until": "2h"})),
        ("A whole tenant", json!({"where": "all", "why": "ticket 812", "messages": true})),
    ];
    Operation::new(TAG, "Events collect, and nothing goes out. A pause of the same scope gets the new terms.")
        .query(&[Query::Tenant])
        .body::<Terms>(&bodies)
        .answer::<PauseStarted>(200, "The scope was paused before.")
        .answer::<PauseStarted>(201, "The scope is paused now.")
        .link(200, "Resume", "id", "$response.body#/pause/id")
        .link(201, "Resume", "id", "$response.body#/pause/id")
}

pub(crate) fn resume() -> Operation {
    Operation::new(
        TAG,
        "What is overdue goes out, spread over some time. A token of one tenant ends only pauses of its \
         tenant.",
    )
    .query(&[Query::Tenant])
    .body::<Why>(&[("A reason", json!({"why": "prices are right again"}))])
    .answer::<PauseEnded>(200, "The pause that ended, and those that still cover some of its keys.")
}
