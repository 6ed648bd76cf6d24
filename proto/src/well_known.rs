//! `google.protobuf.Struct` and `google.protobuf.Timestamp`, as the contract reads them from JSON.

use std::fmt;

use pbjson_types::{ListValue, Struct, value::Kind};
use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut},
    encoding::{DecodeContext, WireType},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Number, Value};

/// Every integer up to this one is exact as an `f64` (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An event's values for templates, wire-compatible with `google.protobuf.Struct`.
///
/// JSON keeps whole numbers exact to 64 bits, e.g. ids. In binary protobuf, `Struct` defines each number as a
/// double, so whole numbers over 2^53 are rounded there.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload {
    pub fields: Map<String, Value>,
    /// Binary protobuf contained NaN or an infinity, which JSON cannot represent.
    #[serde(skip)]
    not_finite: bool,
}

impl Payload {
    /// Returns `true` if JSON can represent every number. Others become `null` in `fields`.
    #[must_use]
    pub const fn is_finite(&self) -> bool {
        !self.not_finite
    }

    fn value(&mut self, kind: Option<Kind>) -> Value {
        match kind {
            None | Some(Kind::NullValue(_)) => Value::Null,
            Some(Kind::BoolValue(flag)) => Value::Bool(flag),
            Some(Kind::StringValue(text)) => Value::String(text),
            Some(Kind::NumberValue(number)) => number_of(number).map_or_else(
                || {
                    self.not_finite = true;
                    Value::Null
                },
                Value::Number,
            ),
            Some(Kind::StructValue(Struct { fields })) => {
                Value::Object(fields.into_iter().map(|(name, value)| (name, self.value(value.kind))).collect())
            }
            Some(Kind::ListValue(ListValue { values })) => {
                Value::Array(values.into_iter().map(|value| self.value(value.kind)).collect())
            }
        }
    }

    fn to_struct(&self) -> Struct {
        let fields = self.fields.iter().map(|(name, value)| (name.clone(), wire(value)));
        Struct { fields: fields.collect() }
    }
}

impl From<Map<String, Value>> for Payload {
    fn from(fields: Map<String, Value>) -> Self {
        Self { fields, not_finite: false }
    }
}

impl FromIterator<(String, Value)> for Payload {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Map::from_iter(fields).into()
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.fmt(f)
    }
}

/// We convert through `Struct`, because binary protobuf is rare here.
impl Message for Payload {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.to_struct().encode_raw(buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        let mut merged = Struct::default();
        merged.merge_field(tag, wire_type, buf, ctx)?;
        for (name, value) in merged.fields {
            let value = self.value(value.kind);
            self.fields.insert(name, value);
        }
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.to_struct().encoded_len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Converts a double to a JSON number: an email should show "3 comments", not "3.0 comments". `None` for NaN
/// and infinities.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "whole numbers up to 2^53 are exact in both")]
pub fn number_of(double: f64) -> Option<Number> {
    if double.fract() == 0.0 && double.abs() <= EXACT {
        return Some(Number::from(double as i64));
    }
    Number::from_f64(double)
}

fn wire(value: &Value) -> pbjson_types::Value {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(*flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(values) => Kind::ListValue(ListValue { values: values.iter().map(wire).collect() }),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), wire(value)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    pbjson_types::Value { kind: Some(kind) }
}

/// An instant, wire-compatible with `google.protobuf.Timestamp`.
///
/// In JSON this accepts the proto3 mapping's RFC 3339 string, and also seconds since 1970 as a number, as
/// event logs often contain. It is always written as a string.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0 to 999,999,999 nanoseconds after `seconds`.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// Converts seconds since 1970, rounded to microseconds: today's doubles have no better precision, and
    /// truncating `.123` would give `.122999`. `None` outside the years 1 to 9999.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        // The range of google.protobuf.Timestamp.
        if !(-62_135_596_800.0..=253_402_300_799.0).contains(&seconds) {
            return None;
        }
        let micros = ((seconds - seconds.floor()) * 1e6).round() as i32;
        let (carry, micros) = if micros == 1_000_000 { (1, 0) } else { (0, micros) };
        Some(Self { seconds: seconds.floor() as i64 + carry, nanos: micros * 1_000 })
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(at: jiff::Timestamp) -> Self {
        // jiff splits instants before 1970 into two negative numbers, protobuf never does.
        let (seconds, nanos) = (at.as_second(), at.subsec_nanosecond());
        if nanos < 0 { Self { seconds: seconds - 1, nanos: nanos + 1_000_000_000 } } else { Self { seconds, nanos } }
    }
}

impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = jiff::Error;

    fn try_from(at: Timestamp) -> Result<Self, Self::Error> {
        Self::new(at.seconds, at.nanos)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let at = jiff::Timestamp::try_from(*self).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&at)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Visitor)
    }
}

struct Visitor;

impl de::Visitor<'_> for Visitor {
    type Value = Timestamp;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an RFC 3339 time such as \"2026-01-31T08:00:00Z\", or seconds since 1970")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
        text.parse::<jiff::Timestamp>().map(Into::into).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Timestamp, E> {
        Ok(Timestamp { seconds, nanos: 0 })
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Timestamp, E> {
        let out_of_range = |_| E::invalid_value(de::Unexpected::Unsigned(seconds), &self);
        i64::try_from(seconds).map_err(out_of_range).and_then(|seconds| self.visit_i64(seconds))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
        Timestamp::from_seconds(seconds).ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn payload(json: Value) -> Payload {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn json_keeps_whole_numbers_to_64_bits_and_binary_protobuf_to_53() {
        let json = json!({"max": u64::MAX, "id": 1_234_567_890_123_456_789_i64, "n": 3, "half": 0.5, "text": "3",
                          "rows": [{"id": -9_007_199_254_740_993_i64}, null, true]});
        let exact = payload(json.clone());
        assert_eq!(serde_json::to_value(&exact).unwrap(), json);
        let binary = Payload::decode(exact.encode_to_vec().as_slice()).unwrap();
        let doubles = json!({"max": 1.844_674_407_370_955_2e19, "id": 1.234_567_890_123_456_8e18, "n": 3, "half": 0.5,
                             "text": "3", "rows": [{"id": -9_007_199_254_740_992_i64}, null, true]});
        assert_eq!(serde_json::to_value(&binary).unwrap(), doubles);
        assert!(exact.is_finite() && binary.is_finite());
    }

    #[test]
    fn the_bytes_are_those_of_a_struct() {
        let json = json!({"list": [1, {"x": null}], "n": 2});
        let theirs: Struct = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(Payload::decode(theirs.encode_to_vec().as_slice()).unwrap(), payload(json.clone()));
        let ours = Struct::decode(payload(json.clone()).encode_to_vec().as_slice()).unwrap();
        assert_eq!(serde_json::to_value(&ours).unwrap(), serde_json::to_value(&theirs).unwrap());
        let not_a_number = Struct { fields: [("x".to_owned(), f64::NAN.into())].into() };
        assert!(!Payload::decode(not_a_number.encode_to_vec().as_slice()).unwrap().is_finite());
    }

    #[test]
    fn seconds_with_a_fraction_are_exact_to_the_microsecond() {
        for (seconds, expected) in [
            (1_795_860_000.123, (1_795_860_000, 123_000_000)),
            (1_795_860_000.057, (1_795_860_000, 57_000_000)),
            (1_795_860_000.999_999, (1_795_860_000, 999_999_000)),
            (1_795_860_000.999_999_9, (1_795_860_001, 0)),
            (0.0, (0, 0)),
            (-0.0, (0, 0)),
            (-0.5, (-1, 500_000_000)),
            (-1.25, (-2, 750_000_000)),
            (-0.000_000_1, (0, 0)),
            (2.0, (2, 0)),
        ] {
            let Timestamp { seconds: whole, nanos } = Timestamp::from_seconds(seconds).unwrap();
            assert_eq!((whole, nanos), expected, "{seconds}");
        }
        for wrong in [f64::NAN, f64::INFINITY, 1e13, -1e12] {
            assert_eq!(Timestamp::from_seconds(wrong), None, "{wrong}");
        }
        // Each millisecond of a second, as Python's time.time() and JavaScript's Date.now() / 1000 have it.
        for ms in 0..1000_i32 {
            let at = Timestamp::from_seconds(1_795_860_000.0 + f64::from(ms) / 1e3).unwrap();
            assert_eq!(at.nanos, ms * 1_000_000);
        }
    }
}
