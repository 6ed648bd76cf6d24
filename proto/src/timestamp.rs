//! `google.protobuf.Timestamp` as the contract reads it from JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An instant, wire-compatible with `google.protobuf.Timestamp`.
///
/// JSON takes the RFC 3339 string of the proto3 mapping and also a number of seconds since 1970,
/// which is what event logs tend to hold; it is always written as a string.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// 0 to 999,999,999 nanoseconds after `seconds`.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(at: jiff::Timestamp) -> Self {
        // jiff splits instants before 1970 into a negative second and a negative rest, protobuf never does.
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

    #[expect(clippy::cast_possible_truncation, reason = "the range is checked first")]
    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
        // Year 9999, the end of google.protobuf.Timestamp.
        if !(0.0..=253_402_300_799.0).contains(&seconds) {
            return Err(E::invalid_value(de::Unexpected::Float(seconds), &self));
        }
        let nanos = (seconds.fract() * 1e9) as i32;
        Ok(Timestamp { seconds: seconds.trunc() as i64, nanos })
    }
}
