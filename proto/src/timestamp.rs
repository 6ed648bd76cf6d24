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

impl Timestamp {
    /// Seconds since 1970, rounded to microseconds: a double of today has no more, and cutting `.123` would make it `.122999`.
    /// `None`: the time is outside the years 1 to 9999.
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

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Timestamp, E> {
        Timestamp::from_seconds(seconds).ok_or_else(|| E::invalid_value(de::Unexpected::Float(seconds), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
