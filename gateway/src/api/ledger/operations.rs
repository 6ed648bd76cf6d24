use serde_json::json;
use tidings_activities::operations::{dead_letters::list::Letter, digest::Story};
use tidings_model::records::{AuditRecord, DigestRecord};

use super::dead_letters::{Emitted, Shown};
use crate::{
    api::{
        Endpoint,
        body::Why,
        openapi::{
            operation::{Operation, Tag},
            parameter::Query,
        },
    },
    problem::Problem,
};

const SPAN: [Query; 4] = [Query::Since, Query::Until, Query::Limit, Query::After];

pub(crate) fn list() -> Operation {
    Operation::new(
        Tag::Digests,
        "The latest window comes first. A window that collects is in the ledger only if some of its events \
         are stashed: ask for its key.",
    )
    .query(&[
        Query::Tenant,
        Query::Type,
        Query::User,
        Query::Outcome,
        Query::DigestState,
        Query::Window,
        Query::Overdue,
    ])
    .query(&SPAN)
    .page::<DigestRecord>("A page of digests.")
    .link(200, Endpoint::ShowDigest, "id", "$response.body#/rows/0/digest_id")
}

pub(crate) fn show() -> Operation {
    Operation::new(
        Tag::Digests,
        "The events come in pages. Without addresses the message has no address, and reports have no texts of \
         providers.",
    )
    .query(&[Query::Tenant, Query::Addresses, Query::Limit, Query::After])
    .answer::<Story>(200, "The digest with everything that is known about it.")
}

pub(crate) fn audit() -> Operation {
    Operation::new(Tag::Audit, "The latest entry comes first. Without addresses the reasons have none.")
        .query(&[Query::Tenant, Query::Type, Query::User, Query::Actor, Query::Action, Query::Addresses])
        .query(&SPAN)
        .page::<AuditRecord>("A page of entries.")
}

pub(crate) fn dead_letters() -> Operation {
    Operation::new(
        Tag::DeadLetters,
        "The latest letter comes first. Letters of webhooks belong to no tenant: only a token of all tenants \
         finds them.",
    )
    .query(&[Query::Tenant, Query::Source, Query::Type, Query::User])
    .query(&SPAN)
    .page::<Letter>("A page of letters.")
    .link(200, Endpoint::ShowDeadLetter, "id", "$response.body#/rows/0/id")
}

pub(crate) fn show_dead_letter() -> Operation {
    Operation::new(Tag::DeadLetters, "The payload of a signal is not shown.")
        .query(&[Query::Tenant])
        .answer::<Shown>(200, "The letter, and what an emission would do.")
}

pub(crate) fn emit_dead_letter() -> Operation {
    Operation::new(
        Tag::DeadLetters,
        "A letter whose fault is fixed is emitted once. A letter that was emitted, or is still malformed, is \
         a 409.",
    )
    .query(&[Query::Tenant])
    .body::<Why>(&[("A reason", json!({"why": "the producer was corrected"}))])
    .answer::<Emitted>(200, "What was emitted.")
    .problem(Problem::Conflict)
    .problem(Problem::NoAnswer)
}
