use serde_json::json;

use super::{Lifted, Put, Shown};
use crate::api::openapi::{
    operation::{Operation, Tag},
    parameter::Query,
};

const TAG: Tag = Tag::Suppressions;

pub(crate) fn list() -> Operation {
    Operation::new(TAG, "The latest suppression comes first.")
        .query(&[Query::Tenant, Query::Address, Query::Limit, Query::After])
        .answer::<Shown>(200, "A page of suppressions.")
}

pub(crate) fn show() -> Operation {
    Operation::new(TAG, "An address may be suppressed for several reasons.")
        .query(&[Query::Tenant])
        .answer::<Shown>(200, "The suppressions of the address.")
}

pub(crate) fn put() -> Operation {
    Operation::new(TAG, "The tenant sends nothing more to the address that the reason forbids.")
        .query(&[Query::Tenant, Query::Why])
        .body::<Put>(&[("A complaint", json!({"reason": "complaint"}))])
        .answer::<Shown>(200, "The address was suppressed for this reason before.")
        .answer::<Shown>(201, "The address is suppressed now.")
}

pub(crate) fn lift() -> Operation {
    Operation::new(TAG, "The tenant may send to the address again. With a reason only that suppression is lifted.")
        .query(&[Query::Tenant, Query::Why, Query::OfReason])
        .answer::<Lifted>(200, "The reasons that no longer count.")
}
