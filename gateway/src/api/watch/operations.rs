use tidings_activities::operations::stats::Stats;

use super::{Relays, Report};
use crate::{
    api::openapi::{
        operation::{Operation, Tag},
        parameter::Query,
    },
    problem::Problem,
};

const TAG: Tag = Tag::Statistics;

pub(crate) fn stats() -> Operation {
    Operation::new(
        TAG,
        "Counts over a span that ends now; 24 hours unless since says more. A token of one tenant does not \
         get taskQueues, breakers, inbox, notices, differences and upkeep, which belong to all tenants.",
    )
    .query(&[Query::Tenant, Query::Since])
    .answer::<Stats>(200, "The statistics.")
    .problem(Problem::NoAnswer)
}

pub(crate) fn report() -> Operation {
    Operation::new(TAG, "Counts the messages that were made in a span; 30 days unless since says more.")
        .query(&[Query::Tenant, Query::By, Query::Since, Query::Until])
        .answer::<Report>(200, "The report.")
}

pub(crate) fn relays() -> Operation {
    Operation::new(TAG, "Relays belong to no tenant. Only a token of all tenants that names none finds them.")
        .query(&[Query::Tenant])
        .answer::<Relays<'_>>(200, "The relays with their breakers.")
}
