use serde_json::json;
use tidings_activities::choices::PreferencesView;

use super::{Choice, Consent, ConsentView};
use crate::{
    api::openapi::{
        operation::{Operation, Tag},
        parameter::{Header, Query, ResponseHeader},
    },
    problem::Problem,
};

const TAG: Tag = Tag::Preferences;

pub(crate) fn show() -> Operation {
    Operation::new(TAG, "Answers with the choices, what is in force, and when a window would be due.")
        .query(&[Query::Tenant])
        .answer_with::<PreferencesView<'_>>(200, "The choices and their effect.", &[ResponseHeader::Tag])
}

pub(crate) fn put() -> Operation {
    let bodies = [
        ("Weekly without shares", json!({"cadence": "weekly mon 08:00", "off": ["share"]})),
        ("The defaults", json!({})),
    ];
    Operation::new(
        TAG,
        "An omitted field is the default again. A repeated request whose wish is true already is answered \
         with 200.",
    )
    .query(&[Query::Tenant, Query::Why])
    .header(Header::RequiredIfMatch)
    .body::<Choice>(&bodies)
    .answer_with::<PreferencesView<'_>>(200, "The choices and their effect.", &[ResponseHeader::Tag])
    .problem(Problem::NoVersion)
    .problem(Problem::Changed)
}

pub(crate) fn show_consent() -> Operation {
    Operation::new(TAG, "A recipient consents unless the consent was withdrawn.")
        .query(&[Query::Tenant])
        .answer_with::<ConsentView<'_>>(200, "The consent.", &[ResponseHeader::Tag])
}

pub(crate) fn put_consent() -> Operation {
    let bodies = [("Withdrawn", json!({"consent": false})), ("Given", json!({"consent": true}))];
    Operation::new(TAG, "A withdrawn consent takes effect at once, also for the open window.")
        .query(&[Query::Tenant, Query::Why])
        .header(Header::IfMatch)
        .body::<Consent>(&bodies)
        .answer_with::<ConsentView<'_>>(200, "The consent.", &[ResponseHeader::Tag])
        .problem(Problem::Changed)
}
