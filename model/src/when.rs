//! Parses times: RFC 3339, JSON numbers with seconds since 1970, and for operators a span from now, with days
//! of 24 hours. Only years 1 to 9999 are valid.

use std::fmt;

use jiff::{Span, Timestamp, Zoned, fmt::temporal::Pieces, tz::TimeZone};
use serde::{Deserialize as _, Deserializer, de};
use serde_json::Value;

use crate::foreign_text::json_type;

/// Local time for operators, e.g. `Tue 2026-11-24 08:00:00 CET`.
#[must_use]
pub fn local_time(at: Timestamp, zone: TimeZone) -> String {
    at.to_zoned(zone).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The start of year 1, the minimum of `google.protobuf.Timestamp`. jiff starts earlier.
const FIRST: i64 = -62_135_596_800;
/// The end of year 9999. jiff ends 26 hours earlier; we map the times in between to [`Timestamp::MAX`].
const LAST: i64 = 253_402_300_799;

/// The error text should not quote the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeError {
    /// Not even close to RFC 3339.
    NoTime,
    NoOffset,
    OnlyDate,
    QuotedNumber,
    Unset,
    OutOfRange,
    /// Too large, but plausible in this unit, i.e. after dividing it by the second value.
    Unit(&'static str, &'static str),
}

impl fmt::Display for TimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoTime => "is not a time as in RFC 3339, such as 2026-01-31T08:00:00Z (JavaScript: toISOString())",
            Self::NoOffset => {
                "has no offset from UTC; append Z or +02:00 (Java's LocalDateTime and Python's naive datetime have none; \
                 use Instant, or datetime.now(timezone.utc))"
            }
            Self::OnlyDate => "is a date without a time and an offset; write for example 2026-01-31T08:00:00Z",
            Self::QuotedNumber => "is a number in quotes; write seconds since 1970 without quotes",
            Self::Unset => {
                "is the first instant of year 1; was it never set? (Go's zero time.Time and .NET's DateTime.MinValue)"
            }
            Self::OutOfRange => "is outside the years 1 to 9999",
            Self::Unit(unit, divisor) => {
                return write!(
                    f,
                    "is outside the years 1 to 9999 as seconds since 1970; is it in {unit}? Divide it by {divisor}, or write RFC 3339"
                );
            }
        })
    }
}

/// Only accepts RFC 3339.
pub(crate) fn from_text(text: &str) -> Result<Timestamp, TimeError> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return in_range(at.as_second()).map(|()| at);
    }
    let Ok(pieces) = Pieces::parse(text) else {
        let is_number = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
        return Err(if is_number { TimeError::QuotedNumber } else { TimeError::NoTime });
    };
    match (pieces.time(), pieces.to_numeric_offset()) {
        (None, _) => Err(TimeError::OnlyDate),
        (Some(_), None) => Err(TimeError::NoOffset),
        (Some(_), Some(_)) if pieces.date().year() == 9999 => Ok(Timestamp::MAX),
        (Some(_), Some(_)) => Err(TimeError::OutOfRange),
    }
}

pub(crate) fn from_seconds(seconds: i64, nanos: i32) -> Result<Timestamp, TimeError> {
    in_range(seconds)?;
    if seconds >= Timestamp::MAX.as_second() {
        return Ok(Timestamp::MAX);
    }
    Timestamp::new(seconds, nanos).map_err(|_| TimeError::OutOfRange)
}

fn in_range(seconds: i64) -> Result<(), TimeError> {
    if (FIRST..=LAST).contains(&seconds) {
        return Ok(());
    }
    let (size, year_2000) = (seconds.unsigned_abs(), 946_684_800_u64);
    Err(match size {
        _ if size < year_2000 * 1_000 => TimeError::OutOfRange,
        _ if size < year_2000 * 1_000_000 => TimeError::Unit("milliseconds", "1,000"),
        _ if size < year_2000 * 1_000_000_000 => TimeError::Unit("microseconds", "1,000,000"),
        _ => TimeError::Unit("nanoseconds", "1,000,000,000"),
    })
}

/// Parses a time in JSON: RFC 3339, or seconds since 1970, possibly with a fraction.
///
/// # Errors
/// Describes the problem, and the likely cause in the producer's language.
pub(crate) fn from_json(value: &Value) -> Result<Timestamp, String> {
    let at = match value {
        Value::String(text) => from_text(text),
        Value::Number(number) => {
            match (number.as_i64(), number.as_f64().and_then(tidings_proto::Timestamp::from_seconds)) {
                (Some(seconds), _) => from_seconds(seconds, 0),
                (None, Some(at)) => from_seconds(at.seconds, at.nanos),
                #[expect(clippy::cast_possible_truncation, reason = "a cast of a double saturates")]
                (None, None) => {
                    Err(in_range(number.as_f64().unwrap_or(f64::MAX) as i64).err().unwrap_or(TimeError::OutOfRange))
                }
            }
        }
        Value::Object(_) => {
            return Err("is an object, not a time; protobuf messages in a list need the proto3-JSON of their language"
                .to_owned());
        }
        value => return Err(format!("is {}, not a time as in RFC 3339 or seconds since 1970", json_type(value))),
    };
    at.map_err(|error| error.to_string())
}

/// For serde: an optional time in JSON, as RFC 3339 or seconds since 1970.
///
/// # Errors
/// Describes the problem.
pub fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value => from_json(&value).map(Some).map_err(de::Error::custom),
    }
}

/// Parses RFC 3339 written by a person.
///
/// # Errors
/// Describes the problem.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    from_text(text).map_err(|error| error.to_string())
}

/// Parses a time, or a span after `now` with days of 24 hours. The result must be in the future.
///
/// # Errors
/// Describes the problem, with examples.
pub fn parse_later(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at = time_or_span(text, "2026-12-01T08:00:00Z", |span| now.to_zoned(TimeZone::UTC).checked_add(span))?;
    if at > now { Ok(at) } else { Err("is in the past".to_owned()) }
}

/// Parses a time, or a span before `now` with days of 24 hours.
///
/// # Errors
/// Shows examples.
pub fn parse_moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    time_or_span(text, "2026-11-01T08:00:00Z", |span| now.to_zoned(TimeZone::UTC).checked_sub(span))
}

/// Parses a time, or a span before the current time.
///
/// # Errors
/// Shows examples.
pub fn parse_past(text: &str) -> Result<Timestamp, String> {
    parse_moment(text, Timestamp::now())
}

pub(crate) fn optional_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| parse_past(&text)).transpose().map_err(de::Error::custom)
}

fn time_or_span(
    text: &str,
    example: &str,
    at: impl FnOnce(Span) -> Result<Zoned, jiff::Error>,
) -> Result<Timestamp, String> {
    let error = match from_text(text) {
        Ok(at) => return Ok(at),
        Err(error) => error,
    };
    if let Some(at) = text.parse().ok().and_then(|span| at(span).ok()) {
        return Ok(at.timestamp());
    }
    Err(match error {
        TimeError::NoTime | TimeError::QuotedNumber => {
            format!("is neither a time nor a span; write for example {example}, 2h or 14d")
        }
        error => error.to_string(),
    })
}
#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_time_or_a_span_before_now_is_accepted() {
        for (span, minutes) in [("2h 30m", 150), ("1d", 24 * 60), ("2w", 336 * 60)] {
            assert_eq!(parse_moment(span, NOW), Ok(NOW - SignedDuration::from_mins(minutes)), "{span}");
        }
        assert_eq!(parse_moment("2026-11-01T08:00:00Z", NOW).unwrap().to_string(), "2026-11-01T08:00:00Z");
        for wrong in ["yesterday", "", "99999999d"] {
            assert!(parse_moment(wrong, NOW).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_future_time_or_a_span_from_now_is_accepted() {
        for (span, hours) in [("2h", 2), ("1d", 24), ("14d", 336), ("1d 2h", 26), ("500d", 12_000), ("1w", 168)] {
            assert_eq!(parse_later(span, NOW), Ok(NOW + SignedDuration::from_hours(hours)), "{span}");
        }
        assert_eq!(parse_later("2126-12-01T08:00:00Z", NOW).unwrap().to_string(), "2126-12-01T08:00:00Z");
        for wrong in ["2001-01-01T00:00:00Z", "-2h", "tomorrow", "", "99999999d", "9999999999999999999h"] {
            assert!(parse_later(wrong, NOW).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_last_day_of_9999_is_as_late_as_can_be() {
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999+01:00", "9999-12-30T22:00:01Z"] {
            assert_eq!((from_text(text), parse_later(text, NOW)), (Ok(Timestamp::MAX), Ok(Timestamp::MAX)), "{text}");
        }
        assert_eq!(from_json(&json!(LAST)), Ok(Timestamp::MAX));
        assert_eq!(from_seconds(LAST, 999_999_999), Ok(Timestamp::MAX));
        assert!(from_seconds(LAST + 1, 0).is_err() && from_seconds(FIRST - 1, 0).is_err());
        assert_eq!(from_text("0000-12-31T23:59:59Z"), Err(TimeError::OutOfRange));
    }

    #[test]
    fn a_wrong_time_is_refused_with_what_the_language_did() {
        for (value, says) in [
            (json!(1_795_860_000_123_i64), "milliseconds?"),
            (json!(1_795_860_000_123.0), "milliseconds?"),
            (json!(1_795_860_000_123_456_i64), "microseconds?"),
            (json!(1_795_860_000_123_456_789_i64), "nanoseconds?"),
            (json!(1e30), "nanoseconds?"),
            (json!(-62_135_596_801_i64), "is outside the years 1 to 9999"),
            (json!("2026-11-28T10:00:00.123456"), "has no offset"),
            (json!("2026-11-28 10:00:00"), "has no offset"),
            (json!("2026-11-28"), "is a date without a time"),
            (json!("1795860000"), "a number in quotes"),
            (json!("Sat Nov 28 2026 10:00:00 GMT+0000"), "toISOString()"),
            (json!({"seconds": 1}), "is an object"),
            (json!(true), "is true or false, not a time"),
        ] {
            let error = from_json(&value).unwrap_err();
            assert!(error.contains(says), "{value}: {error}");
        }
        for text in ["2026-11-28T10:00:00", "2026-11-28"] {
            assert!(parse_later(text, NOW).unwrap_err().contains(&from_text(text).unwrap_err().to_string()), "{text}");
        }
    }

    #[test]
    fn each_form_of_an_instant_is_the_same_instant() {
        let at = from_text("2026-11-28T10:00:00.123Z").unwrap();
        for form in
            [json!("2026-11-28T10:00:00.123000Z"), json!("2026-11-28 11:00:00.123+01:00"), json!(1_795_860_000.123)]
        {
            assert_eq!(from_json(&form), Ok(at), "{form}");
        }
        assert_eq!(from_json(&json!(-1.5)), Ok(Timestamp::constant(-2, 500_000_000)));
    }
}
