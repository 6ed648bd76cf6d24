//! Conversion of a payload from `google.protobuf.Struct` to the JSON that the workflow keeps and templates see.

use pbjson_types::{Struct, value::Kind};
use serde_json::{Map, Number, Value};

use crate::limits::{self, Invalid};

/// The largest integer up to which every integer is an `f64` (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn checked(payload: Option<Struct>) -> Result<Map<String, Value>, Invalid> {
    let payload = object(payload.unwrap_or_default(), limits::PAYLOAD_DEPTH)?;
    limits::bytes("payload", Value::Object(payload.clone()).to_string().len(), limits::PAYLOAD_BYTES)?;
    Ok(payload)
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
        checked(Some(serde_json::from_value(payload).unwrap())).map(Value::Object)
    }

    #[test]
    fn a_whole_number_stays_whole() {
        let payload = json!({"n": 3, "half": 0.5, "minus": -7, "list": [1, null, {"x": true}], "text": "3"});
        assert_eq!(through(payload.clone()).unwrap(), payload);
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused() {
        let nan = Struct { fields: [("x".to_owned(), f64::NAN.into())].into() };
        assert!(checked(Some(nan)).unwrap_err().to_string().contains("not finite"));
    }

    #[test]
    fn a_payload_nests_as_deep_as_the_limit_and_no_deeper() {
        let nested = |levels| json!({"x": (0..levels).fold(json!(1), |inner, _| json!([inner]))});
        assert!(through(nested(limits::PAYLOAD_DEPTH)).is_ok());
        let error = through(nested(limits::PAYLOAD_DEPTH + 1)).unwrap_err();
        assert!(error.to_string().contains("32"), "{error}");
    }
}
