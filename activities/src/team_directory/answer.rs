//! The answer of a team's directory about a person, from what a service or a database said.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use tidings_model::{PersonId, foreign_text::clean_edges, known_zone, records::Recipient, settings::FormerNames, wire};

use crate::recipients::{WrongValue, recipient};

/// The fields that are read. Others are not, and null is empty.
const FIELDS: [&str; 4] = ["email", "name", "zone", "locale"];
/// Characters that are kept of an unknown zone. The longest name of the IANA list has 30.
const ZONE_CHARS: usize = 60;

/// The answer. No reason has a value of the answer: it may be an address.
pub(super) enum Answer {
    Known(Recipient),
    Unknown,
    /// There is an answer, and no message can be sent with it: why.
    Wrong(String),
    /// An answer is missing: why.
    Away(String),
}

impl Answer {
    /// The name in metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known(_) => "known",
            Self::Unknown => "unknown",
            Self::Wrong(_) => "wrong",
            Self::Away(_) => "away",
        }
    }

    /// Reads the answer of a service. Only 404 says that the person is unknown. What is no JSON object may come from a proxy.
    pub fn of_service(person: &PersonId, status: u16, body: &[u8]) -> Self {
        match (status, serde_json::from_slice::<Map<String, Value>>(&wire::mended(body))) {
            (200, Ok(row)) => read(person, &row),
            (200, Err(_)) => Self::Away("the answer is not a JSON object".to_owned()),
            (404, _) => Self::Unknown,
            _ => Self::Away(format!("the status {status}")),
        }
    }

    /// Reads a row as JSON. A row that is too long was cut.
    pub fn of_row(person: &PersonId, row: &str) -> Self {
        match serde_json::from_str::<Map<String, Value>>(row) {
            Ok(row) => read(person, &row),
            Err(_) => Self::Wrong("the row is too long".to_owned()),
        }
    }
}

/// Checks the fields as an import checks a row.
fn read(person: &PersonId, row: &Map<String, Value>) -> Answer {
    for field in FIELDS {
        if !matches!(row.get(field), None | Some(Value::Null | Value::String(_))) {
            return Answer::Wrong(format!("{field} is not text"));
        }
    }
    let text = |field: &str| row.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    // A zone that nobody knows costs the right hour, and not the email. Every plan shows it.
    let unknown_zone = unknown_zone(&text("zone"));
    // The person has a key already.
    let checked = recipient(
        &FormerNames::default(),
        |_| BTreeSet::new(),
        |column| {
            Some(match column {
                "tenant" => person.tenant.clone(),
                "user" => person.user.clone(),
                "address" => text("email"),
                "zone" if unknown_zone.is_some() => String::new(),
                field => text(field),
            })
        },
    );
    match checked.map(Recipient::from) {
        Ok(recipient) => Answer::Known(match unknown_zone {
            Some(zone) => Recipient { zone, ..recipient },
            None => recipient,
        }),
        Err(WrongValue { field, problem, .. }) => {
            let field = if field == "address" { "email" } else { &field };
            Answer::Wrong(format!("{field} {problem}"))
        }
    }
}

/// What can be kept and shown of a zone that no zone data has: nothing that is in no name of a zone, as it may be a part of an address.
fn unknown_zone(written: &str) -> Option<String> {
    let written = clean_edges(written);
    if written.is_empty() || known_zone(written).is_some() {
        return None;
    }
    let is_of_name = |char: &char| char.is_ascii_alphanumeric() || "/_+-".contains(*char);
    let shown: String = written.chars().take(ZONE_CHARS).take_while(is_of_name).collect();
    // The rest of it may be the name of a zone.
    let cut = if shown.len() < written.len() { "?" } else { "" };
    Some(shown + cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recipient, or the name of the answer with its reason.
    fn said(status: u16, body: &str) -> String {
        let ann = PersonId { tenant: "acme".into(), user: "ann".into() };
        match Answer::of_service(&ann, status, body.as_bytes()) {
            Answer::Known(Recipient { tenant, user, address, name, zone, locale }) => {
                [tenant, user, address, name, zone, locale].join("|")
            }
            Answer::Unknown => "unknown".to_owned(),
            Answer::Wrong(why) => format!("wrong: {why}"),
            Answer::Away(why) => format!("away: {why}"),
        }
    }

    #[test]
    fn an_answer_is_a_recipient_or_says_why_it_is_not() {
        let ann = r#"{"email": "ann@acme.example", "name": "Ann", "zone": "Asia/Tokyo", "locale": "ja", "id": 7}"#;
        for (status, body, expected) in [
            (200, ann, "acme|ann|ann@acme.example|Ann|Asia/Tokyo|ja"),
            (200, r#"{"email": "ann@acme.example", "zone": null}"#, "acme|ann|ann@acme.example|||"),
            (200, r#"{"address": "ann@acme.example"}"#, "wrong: email is required"),
            (200, r#"{"email": "hanako.@docomo.ne.jp"}"#, "acme|ann|hanako.@docomo.ne.jp|||"),
            (200, r#"{"email": "v@[127.0.0.1]"}"#, "wrong: email has an IP address after the @"),
            (200, r#"{"email": "ann at acme"}"#, "wrong: email is not an address; write for example"),
            (200, r#"{"email": "a@b.example\r\nBcc: c@d.example"}"#, "wrong: email is not an address"),
            (200, r#"{"email": ["ann@acme.example"]}"#, "wrong: email is not text"),
            (
                200,
                r#"{"email": "ann@acme.example", "zone": "Asia/Calcutta"}"#,
                "acme|ann|ann@acme.example||Asia/Kolkata|",
            ),
            (
                200,
                r#"{"email": "ann@acme.example", "zone": " Europe/Berln "}"#,
                "acme|ann|ann@acme.example||Europe/Berln|",
            ),
            (200, r#"{"email": "ann@acme.example", "zone": "local\u0000time"}"#, "acme|ann|ann@acme.example||local?|"),
            (200, r#"{"email": "ann@acme.example", "name": "A\u0000nn"}"#, "wrong: name has a NUL"),
            (200, "[]", "away: the answer is not a JSON object"),
            (200, "<html>", "away: the answer is not a JSON object"),
            (404, "<html>", "unknown"),
            (307, ann, "away: the status 307"),
            (503, "", "away: the status 503"),
        ] {
            let said = said(status, body);
            assert!(said.starts_with(expected), "{body}: {said}");
            assert!(!said.contains("ann at") && !said.contains("d.example"), "{said}");
        }
    }
}
