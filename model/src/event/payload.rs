//! The values of an event for templates.
//!
//! An event passes through many hands between its signal and its email: workflow state, inputs of activities, rows. Only the message
//! looks into its payload, so all others carry the text.

use std::borrow::Cow;

use pbjson_types::{Struct, value::Kind};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, Unexpected},
};
use serde_json::{
    Map, Number, Value,
    value::{RawValue, to_raw_value},
};

use crate::limits::{self, Invalid};

/// The largest integer up to which every integer is an `f64` (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The values of an event for templates, as the text of a JSON object. Payloads with equal fields are equal.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Payload(Box<RawValue>);

impl Payload {
    /// Checks the limits of a payload on the wire.
    pub(super) fn from_wire(payload: Option<Struct>) -> Result<Self, Invalid> {
        let payload = Self::from(object(payload.unwrap_or_default(), limits::PAYLOAD_DEPTH)?);
        limits::bytes("payload", payload.text().len(), limits::PAYLOAD_BYTES)?;
        Ok(payload)
    }

    /// The text of the JSON object.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// `true` for an object without fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text() == "{}"
    }

    /// The fields of the object.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        // The text is JSON, and nests less deeply than serde_json reads.
        serde_json::from_str(self.text()).unwrap_or_default()
    }

    /// The field `title`, if it is text.
    #[must_use]
    pub fn title(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Titled<'a> {
            #[serde(borrow)]
            title: Cow<'a, str>,
        }
        serde_json::from_str(self.text()).ok().map(|Titled { title }| title)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text() || self.fields() == other.fields()
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::from(Map::new())
    }
}

impl From<Map<String, Value>> for Payload {
    fn from(fields: Map<String, Value>) -> Self {
        Self(to_raw_value(&fields).expect("values with names are a JSON object"))
    }
}

impl FromIterator<(String, Value)> for Payload {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Self::from(Map::from_iter(fields))
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        if text.get().starts_with('{') {
            return Ok(Self(text));
        }
        Err(D::Error::invalid_type(Unexpected::Other("a value of another kind"), &"a JSON object"))
    }
}

fn object(fields: Struct, levels_left: usize) -> Result<Map<String, Value>, Invalid> {
    let mut fields: Vec<_> = fields.fields.into_iter().collect();
    // A map's order on the wire is chance, and replay must see the same bytes.
    fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    fields.into_iter().map(|(name, field)| Ok((name, value(field.kind, levels_left)?))).collect()
}

fn value(kind: Option<Kind>, levels_left: usize) -> Result<Value, Invalid> {
    let below = || {
        levels_left
            .checked_sub(1)
            .ok_or_else(|| Invalid::new("payload", format!("nests deeper than {} levels", limits::PAYLOAD_DEPTH)))
    };
    Ok(match kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => Value::Bool(flag),
        Some(Kind::StringValue(text)) => Value::String(text),
        Some(Kind::NumberValue(number)) => Value::Number(json_number(number)?),
        Some(Kind::StructValue(fields)) => Value::Object(object(fields, below()?)?),
        Some(Kind::ListValue(list)) => {
            let below = below()?;
            Value::Array(list.values.into_iter().map(|item| value(item.kind, below)).collect::<Result<_, _>>()?)
        }
    })
}

/// Struct knows only floating point; a mail must say "3 comments", not "3.0 comments".
#[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 2^53 are exact in both")]
fn json_number(number: f64) -> Result<Number, Invalid> {
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| Invalid::new("payload", "has a number that is not finite"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn through(payload: Value) -> Result<Value, Invalid> {
        let payload = Payload::from_wire(Some(serde_json::from_value(payload).unwrap()))?;
        Ok(Value::Object(payload.fields()))
    }

    #[test]
    fn a_whole_number_stays_whole() {
        let payload = json!({"n": 3, "half": 0.5, "minus": -7, "list": [1, null, {"x": true}], "text": "3"});
        assert_eq!(through(payload.clone()).unwrap(), payload);
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused() {
        let nan = Struct { fields: [("x".to_owned(), f64::NAN.into())].into() };
        assert!(Payload::from_wire(Some(nan)).unwrap_err().to_string().contains("not finite"));
    }

    #[test]
    fn a_payload_is_carried_as_its_text() {
        let text = r#"{"title":"A \"b\"","n":1.50,"list":[{}]}"#;
        let payload: Payload = serde_json::from_str(text).unwrap();
        assert_eq!((payload.text(), serde_json::to_string(&payload).unwrap().as_str()), (text, text));
        assert_eq!(Value::Object(payload.fields()), json!({"title": "A \"b\"", "n": 1.5, "list": [{}]}));
        assert!(!payload.is_empty() && Payload::default().is_empty());
        let same = r#"{"list": [{}], "n": 1.5, "title": "A \"b\""}"#;
        assert_eq!((serde_json::from_str::<Payload>(same).unwrap(), payload == Payload::default()), (payload, false));
        assert_eq!(serde_json::from_value::<Payload>(json!({"title": 1})).unwrap().text(), r#"{"title":1}"#);
        let error = serde_json::from_str::<Payload>("[1]").unwrap_err().to_string();
        assert!(error.contains("expected a JSON object"), "{error}");
    }

    #[test]
    fn a_title_is_a_text_of_that_name() {
        let title = |text: &str| serde_json::from_str::<Payload>(text).unwrap().title().map(Cow::into_owned);
        assert_eq!(title(r#"{"n":1,"title":"a \u00fc"}"#).as_deref(), Some("a ü"));
        for without in [r#"{"title":1}"#, r#"{"title":null}"#, r#"{"name":{"title":"a"}}"#, "{}"] {
            assert_eq!(title(without), None, "{without}");
        }
    }

    #[test]
    fn a_payload_nests_as_deep_as_the_limit_and_no_deeper() {
        let nested = |levels| json!({"x": (0..levels).fold(json!(1), |inner, _| json!([inner]))});
        assert!(through(nested(limits::PAYLOAD_DEPTH)).is_ok());
        let error = through(nested(limits::PAYLOAD_DEPTH + 1)).unwrap_err();
        assert!(error.to_string().contains("32"), "{error}");
    }
}
