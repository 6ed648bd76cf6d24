use tidings_workflows::Status;

use crate::{
    api::openapi::{
        operation::{Operation, Tag},
        parameter::Query,
    },
    problem::Problem,
};

pub(crate) fn get() -> Operation {
    Operation::new(
        Tag::Digests,
        "Answers with the number of pending events, when they go out and why. A key without anything pending \
         is a 404.",
    )
    .query(&[Query::Tenant])
    .answer::<Status>(200, "The state of the key.")
    .problem(Problem::NoAnswer)
}
