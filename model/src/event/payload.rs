//! An event's template values. Only rendering reads them; workflow state, activity inputs and rows just pass
//! the JSON text along.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, Unexpected},
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};
use tidings_proto::number_of;

use crate::limits::{self, InvalidField};

/// A JSON object as text. Payloads with equal fields are equal.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct EventPayload(Box<RawValue>);

impl EventPayload {
    pub(super) fn from_wire(payload: Option<tidings_proto::Payload>) -> Result<Self, InvalidField> {
        let mut payload = payload.unwrap_or_default();
        if !payload.is_finite() {
            return Err(InvalidField::new("payload", "has a number that is not finite"));
        }
        for value in payload.fields.values_mut() {
            normalize_value(value, limits::PAYLOAD_DEPTH)?;
        }
        let payload = Self::from(payload.fields);
        limits::check_bytes("payload", payload.as_json().len(), limits::PAYLOAD_BYTES)?;
        Ok(payload)
    }

    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_json() == "{}"
    }

    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        // The text is valid JSON with less nesting than serde_json allows.
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }

    /// The texts shown in an item, besides actor and time.
    #[must_use]
    pub fn display_texts(&self) -> PayloadTexts<'_> {
        let RawPayloadFields { title, excerpt, url } = serde_json::from_str(self.as_json()).unwrap_or_default();
        PayloadTexts { title: text_field(title), excerpt: text_field(excerpt), url: text_field(url) }
    }
}

/// `None` if a field is missing, blank or not a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadTexts<'a> {
    pub title: Option<Cow<'a, str>>,
    pub excerpt: Option<Cow<'a, str>>,
    pub url: Option<Cow<'a, str>>,
}

/// Raw, so a field with a wrong type does not affect the others.
#[derive(Default, Deserialize)]
struct RawPayloadFields<'a> {
    #[serde(borrow)]
    title: Option<&'a RawValue>,
    #[serde(borrow)]
    excerpt: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
}

fn text_field(field: Option<&RawValue>) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str(field?.get()).ok().map(|BorrowedText(text)| text).filter(|text| !text.trim().is_empty())
}

impl PartialEq for EventPayload {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json() || self.fields() == other.fields()
    }
}

impl Default for EventPayload {
    fn default() -> Self {
        Self::from(Map::new())
    }
}

impl From<Map<String, Value>> for EventPayload {
    fn from(fields: Map<String, Value>) -> Self {
        Self(to_raw_value(&fields).expect("values with names are a JSON object"))
    }
}

impl FromIterator<(String, Value)> for EventPayload {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Self::from(Map::from_iter(fields))
    }
}

impl<'de> Deserialize<'de> for EventPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if text.get().starts_with('{') {
            return Ok(Self(text));
        }
        Err(D::Error::invalid_type(Unexpected::Other("a value of another kind"), &"a JSON object"))
    }
}

/// Checks the nesting depth, and turns a double without a fraction into an integer, so an email shows "3
/// comments", not "3.0 comments".
fn normalize_value(value: &mut Value, levels_left: usize) -> Result<(), InvalidField> {
    let below = || {
        levels_left
            .checked_sub(1)
            .ok_or_else(|| InvalidField::new("payload", format!("nests deeper than {} levels", limits::PAYLOAD_DEPTH)))
    };
    match value {
        Value::Number(number) => {
            if let Some(double) = number.as_f64().filter(|_| number.is_f64()) {
                *value = number_of(double).map_or(Value::Null, Value::Number);
            }
        }
        Value::Array(items) => {
            let below = below()?;
            items.iter_mut().try_for_each(|item| normalize_value(item, below))?;
        }
        Value::Object(fields) => {
            let below = below()?;
            fields.values_mut().try_for_each(|field| normalize_value(field, below))?;
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use serde_json::json;

    use super::*;

    fn through(payload: Value) -> Result<Value, InvalidField> {
        let payload = EventPayload::from_wire(Some(serde_json::from_value(payload).unwrap()))?;
        Ok(Value::Object(payload.fields()))
    }

    #[test]
    fn a_whole_number_stays_whole() {
        let payload = json!({"n": 3, "half": 0.5, "minus": -7, "list": [1, null, {"x": true}], "text": "3"});
        assert_eq!(through(payload.clone()).unwrap(), payload);
    }

    #[test]
    fn an_integer_keeps_its_digits_and_a_whole_double_becomes_one() {
        let text = |json: &str| {
            let payload = EventPayload::from_wire(Some(serde_json::from_str(json).unwrap())).unwrap();
            payload.as_json().to_owned()
        };
        for whole in ["9007199254740992", "1234567890123456789", "-9007199254740993", "18446744073709551615"] {
            let json = format!(r#"{{"rows":[{{"id":{whole}}}]}}"#);
            assert_eq!(text(&json), json);
        }
        assert_eq!(text(r#"{"n":2.0,"m":1E+2,"z":-0.0}"#), r#"{"m":100,"n":2,"z":0}"#);
        assert_eq!(text(r#"{"n":123456789012345678901234567890}"#), r#"{"n":1.2345678901234568e+29}"#);
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused() {
        // A Struct with the number NaN under the name x.
        let nan = [&[0x0a, 0x0e, 0x0a, 1, b'x', 0x12, 9, 0x11][..], &f64::NAN.to_le_bytes()].concat();
        let nan = tidings_proto::Payload::decode(nan.as_slice()).unwrap();
        assert!(EventPayload::from_wire(Some(nan)).unwrap_err().to_string().contains("not finite"));
    }

    #[test]
    fn a_payload_is_carried_as_its_text() {
        let text = r#"{"title":"A \"b\"","n":1.50,"list":[{}]}"#;
        let payload: EventPayload = serde_json::from_str(text).unwrap();
        assert_eq!((payload.as_json(), serde_json::to_string(&payload).unwrap().as_str()), (text, text));
        assert_eq!(Value::Object(payload.fields()), json!({"title": "A \"b\"", "n": 1.5, "list": [{}]}));
        assert!(!payload.is_empty() && EventPayload::default().is_empty());
        let same = r#"{"list": [{}], "n": 1.5, "title": "A \"b\""}"#;
        assert_eq!(
            (serde_json::from_str::<EventPayload>(same).unwrap(), payload == EventPayload::default()),
            (payload, false)
        );
        assert_eq!(serde_json::from_value::<EventPayload>(json!({"title": 1})).unwrap().as_json(), r#"{"title":1}"#);
        let error = serde_json::from_str::<EventPayload>("[1]").unwrap_err().to_string();
        assert!(error.contains("expected a JSON object"), "{error}");
    }

    #[test]
    fn the_words_of_a_payload_are_the_texts_that_an_item_shows() {
        let words = |text: &str| {
            let payload: EventPayload = serde_json::from_str(text).unwrap();
            let PayloadTexts { title, excerpt, url } = payload.display_texts();
            [title, excerpt, url].map(|word| word.map(Cow::into_owned))
        };
        let all = r#"{"n":1,"title":"a \u00fc","url":"https://a.example","excerpt":"b"}"#;
        assert_eq!(words(all), ["a ü", "b", "https://a.example"].map(|word| Some(word.to_owned())));
        for none in [r#"{"title":1}"#, r#"{"title":null}"#, r#"{"title":" "}"#, r#"{"name":{"title":"a"}}"#, "{}"] {
            assert_eq!(words(none), [None, None, None], "{none}");
        }
        let excerpt = Some("b".to_owned());
        assert_eq!(
            words(r#"{"title":{"x":1},"excerpt":"b","url":[1]}"#),
            [None, excerpt, None],
            "no text spoils another"
        );
    }

    #[test]
    fn a_payload_nests_as_deep_as_the_limit_and_no_deeper() {
        let nested = |levels| json!({"x": (0..levels).fold(json!(1), |inner, _| json!([inner]))});
        assert!(through(nested(limits::PAYLOAD_DEPTH)).is_ok());
        let error = through(nested(limits::PAYLOAD_DEPTH + 1)).unwrap_err();
        assert!(error.to_string().contains("32"), "{error}");
    }
}
