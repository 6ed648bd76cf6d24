use serde_json::json;
use tidings_model::job::{Job, KeyResult};

use super::Posted;
use crate::{
    api::openapi::{
        operation::{Operation, Tag},
        parameter::{Header, Query, ResponseHeader},
    },
    problem::Problem,
};

const TAG: Tag = Tag::Jobs;

pub(crate) fn post() -> Operation {
    let bodies = [
        ("A hold", json!({"order": "hold", "where": "type=activity", "why": "wrong prices", "until": "2h"})),
        ("A dry run", json!({"order": "flush", "where": "type=activity", "why": "ticket 812", "dry_run": true})),
    ];
    Operation::new(TAG, "The filter is narrowed to the tenant of the token. The job goes on without the caller.")
        .query(&[Query::Tenant])
        .header(Header::IdempotencyKey)
        .body::<Posted>(&bodies)
        .answer_with::<Job>(202, "The job.", &[ResponseHeader::Location])
        .link(202, "GetJob", "id", "$response.body#/id")
        .problem(Problem::Conflict)
        .problem(Problem::OtherContent)
}

pub(crate) fn list() -> Operation {
    Operation::new(TAG, "The latest job comes first.")
        .query(&[Query::Tenant, Query::Limit, Query::After])
        .page::<Job>("The jobs.")
}

pub(crate) fn show() -> Operation {
    Operation::new(TAG, "A job that has ended is kept for 30 days.")
        .query(&[Query::Tenant])
        .answer::<Job>(200, "The job with its counts.")
}

pub(crate) fn results() -> Operation {
    Operation::new(TAG, "The results come in the order of the keys.")
        .query(&[Query::Tenant, Query::Limit, Query::After])
        .page::<KeyResult>("The keys with their results.")
}

pub(crate) fn cancel() -> Operation {
    Operation::new(TAG, "Keys that are left get no order. Orders that were sent are not taken back.")
        .query(&[Query::Tenant, Query::Why])
        .answer::<Job>(200, "The job, which has ended.")
}
