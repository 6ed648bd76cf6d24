//! Times as operators write them: a time as in RFC 3339, or a span from now with days of 24 hours.

use jiff::{Span, Timestamp, Zoned, tz::TimeZone};

/// Parses a time, or a span from `now` with days of 24 hours. The result lies in the future.
///
/// # Errors
/// Says what is wrong, with examples.
pub fn later(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at = time_or_span(text, |span| now.to_zoned(TimeZone::UTC).checked_add(span));
    let at = at.ok_or("is neither a time nor a span; write for example 2026-12-01T08:00:00Z, 2h or 14d")?;
    if at > now { Ok(at) } else { Err("is in the past".to_owned()) }
}

/// Parses a time, or a span before `now` with days of 24 hours.
///
/// # Errors
/// Gives examples.
pub fn moment(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let at = time_or_span(text, |span| now.to_zoned(TimeZone::UTC).checked_sub(span));
    at.ok_or_else(|| "is neither a time nor a span; write for example 2026-11-01T08:00:00Z, 2h or 14d".to_owned())
}

/// Reads a time, or a span that `at` turns into one. `None`: the text is neither, or the span is too long.
fn time_or_span(text: &str, at: impl FnOnce(Span) -> Result<Zoned, jiff::Error>) -> Option<Timestamp> {
    text.parse().ok().or_else(|| Some(at(text.parse().ok()?).ok()?.timestamp()))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_time_or_a_span_before_now_is_accepted() {
        for (span, minutes) in [("2h 30m", 150), ("1d", 24 * 60), ("2w", 336 * 60)] {
            assert_eq!(moment(span, NOW), Ok(NOW - SignedDuration::from_mins(minutes)), "{span}");
        }
        assert_eq!(moment("2026-11-01T08:00:00Z", NOW).unwrap().to_string(), "2026-11-01T08:00:00Z");
        for wrong in ["yesterday", "", "99999999d"] {
            assert!(moment(wrong, NOW).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_future_time_or_a_span_from_now_is_accepted() {
        for (span, hours) in [("2h", 2), ("1d", 24), ("14d", 336), ("1d 2h", 26), ("500d", 12_000), ("1w", 168)] {
            assert_eq!(later(span, NOW), Ok(NOW + SignedDuration::from_hours(hours)), "{span}");
        }
        assert_eq!(later("2126-12-01T08:00:00Z", NOW).unwrap().to_string(), "2126-12-01T08:00:00Z");
        for wrong in ["2001-01-01T00:00:00Z", "-2h", "tomorrow", "", "99999999d", "9999999999999999999h"] {
            assert!(later(wrong, NOW).is_err(), "{wrong:?}");
        }
    }
}
