//! Fields of one recipient, as a whole row or a JSON merge patch (RFC 7396).

use axum::http::{
    HeaderMap,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidings_model::records::{ListedRecipient, PageCursor, Recipient, RecipientPlace, SuppressionReason};
use utoipa::ToSchema;

use crate::api::{
    body,
    caller::ApiCaller,
    refusal::{ApiRefusal, Fault},
};

const MERGE_PATCH: &str = "application/merge-patch+json";

/// A row of the directory as a request has it.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = RecipientPut)]
#[serde(deny_unknown_fields)]
pub(super) struct RecipientTerms {
    /// RFC 5321 addr-spec.
    #[serde(default)]
    #[schema(required)]
    address: String,
    #[serde(default)]
    name: String,
    /// IANA time zone; empty for the digest type's.
    #[serde(default)]
    zone: String,
    /// BCP 47 language tag; empty for `en`.
    #[serde(default)]
    locale: String,
}

pub(super) fn read_row(headers: &HeaderMap, bytes: &[u8]) -> Result<impl Fn(&str) -> String + use<>, ApiRefusal> {
    Ok(body::read_json::<RecipientTerms>(headers, bytes)?.values())
}

pub(super) fn apply_patch(
    headers: &HeaderMap,
    bytes: &[u8],
    before: &Recipient,
) -> Result<impl Fn(&str) -> String + use<>, ApiRefusal> {
    let mut headers = headers.clone();
    let named = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    if named.is_some_and(|kind| kind == MERGE_PATCH.as_bytes()) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let patch: Map<String, Value> = body::read_json(&headers, bytes)?;
    let Recipient { address, name, zone, locale, .. } = before;
    let before = json!({"address": address, "name": name, "zone": zone, "locale": locale});
    // Check this first, because `null` would silently remove an unknown field.
    if let Some(unknown) = patch.keys().find(|name| before.get(name.as_str()).is_none()) {
        return Err(ApiRefusal::body(Fault::new(
            unknown,
            "is unknown; a recipient has address, name, zone and locale",
        )));
    }
    let after = merged(before, Value::Object(patch)).to_string();
    Ok(body::parse_json::<RecipientTerms>(&after).map_err(ApiRefusal::wrong_fields)?.values())
}

impl RecipientTerms {
    fn values(self) -> impl Fn(&str) -> String {
        let Self { address, name, zone, locale } = self;
        move |column| match column {
            "address" => address.clone(),
            "name" => name.clone(),
            "zone" => zone.clone(),
            _ => locale.clone(),
        }
    }
}

/// Algorithm of RFC 7396, section 2.
fn merged(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        match value {
            Value::Null => drop(target.remove(&name)),
            value => {
                let before = target.remove(&name).unwrap_or_default();
                target.insert(name, merged(before, value));
            }
        }
    }
    Value::Object(target)
}

/// A row of the directory.
#[derive(Serialize, ToSchema)]
#[schema(as = Recipient)]
pub(super) struct RecipientView {
    tenant: String,
    user: String,
    /// RFC 5321 addr-spec. It is there only if the token has the scope `recipients:read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    name: String,
    /// IANA time zone; empty for the digest type's.
    zone: String,
    /// BCP 47 language tag; empty for `en`.
    locale: String,
    /// The reason why the address is suppressed.
    suppressed: Option<SuppressionReason>,
}

/// A page of the directory.
#[derive(Serialize, ToSchema)]
#[schema(as = Recipients)]
pub(super) struct RecipientPage {
    pub recipients: Vec<RecipientView>,
    /// The cursor of the next page, if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<PageCursor<RecipientPlace>>,
}

/// Includes the address only if the token has `recipients:read`.
pub(super) fn recipient(
    ListedRecipient { recipient, suppressed }: ListedRecipient,
    caller: &ApiCaller,
) -> RecipientView {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let address = caller.sees_addresses().then_some(address);
    RecipientView { tenant, user, address, name, zone, locale, suppressed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    #[test]
    fn a_patch_is_merged_as_the_examples_of_rfc_7396() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
            (r#"{"a":"foo"}"#, "null", "null"),
            (r#"{"a":"foo"}"#, "\"bar\"", "\"bar\""),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(merged(json(target), json(patch)), json(result), "{target} {patch}");
        }
    }

    #[test]
    fn a_patch_of_an_unknown_field_or_another_type_is_refused() {
        let text = |text: &str| text.to_owned();
        let (tenant, user, address) = (text("acme"), text("ann"), text("ann@example.net"));
        let ann = Recipient { tenant, user, address, name: text("Ann"), zone: text("Asia/Tokyo"), locale: text("") };
        let patch = |kind: &'static str, patch: &str| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
            apply_patch(&headers, patch.as_bytes(), &ann).map(|value| ["address", "name", "zone", "locale"].map(value))
        };
        let after = patch(MERGE_PATCH, r#"{"zone": null, "locale": "de"}"#).unwrap();
        assert_eq!(after, ["ann@example.net", "Ann", "", "de"]);
        let wrong = [(r#"{"user": "bo"}"#, "user"), (r#"{"": null}"#, ""), (r#"{"name": 7}"#, "name")];
        for (wrong, field) in wrong {
            let refusal = patch("application/json", wrong).unwrap_err();
            assert_eq!((refusal.problem(), refusal.fields()), (Problem::WrongBody, vec![field]));
        }
        assert_eq!(patch("text/plain", "{}").unwrap_err().problem(), Problem::UnsupportedMedia);
    }
}
