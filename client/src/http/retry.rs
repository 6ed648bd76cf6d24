//! The wait before a request comes again.

use std::time::{Duration, SystemTime};

/// The wait after a first failure, and the shortest one.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait after failures.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest wait that an answer may ask for. A wrong clock would otherwise stop a client for hours.
const LONGEST_ASKED: Duration = Duration::from_mins(1);

/// The wait that `Retry-After` asks for, in seconds or until a date (RFC 9110, section 10.2.3).
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let asked = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        Duration::from_secs(value.parse().ok()?)
    } else {
        httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(asked.min(LONGEST_ASKED))
}

/// The wait after this number of failures before the latest one: what the answer asked for, or twice as long each time.
pub(super) fn wait(asked: Option<Duration>, failures: u32) -> Duration {
    asked.unwrap_or_else(|| (FIRST * (1 << failures.min(10))).min(LONGEST)).max(FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = SystemTime::UNIX_EPOCH + SECONDS(784_111_777);
        for (value, wait) in [
            ("5", Some(SECONDS(5))),
            (" 0 ", Some(SECONDS(0))),
            ("3600", Some(SECONDS(60))),
            ("Sun, 06 Nov 1994 08:49:44 GMT", Some(SECONDS(7))),
            ("Sunday, 06-Nov-94 08:49:44 GMT", Some(SECONDS(7))),
            ("Sun Nov  6 08:49:44 1994", Some(SECONDS(7))),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(SECONDS(0))),
            ("Mon, 06 Nov 2034 08:49:37 GMT", Some(SECONDS(60))),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(retry_after(value, now), wait, "{value:?}");
        }
    }

    #[test]
    fn a_wait_doubles_unless_the_answer_asks_for_one() {
        let waits = [0, 1, 2, 5, 6, 1_000].map(|failures| wait(None, failures).as_millis());
        assert_eq!(waits, [100, 200, 400, 3_200, 5_000, 5_000]);
        assert_eq!(wait(Some(SECONDS(30)), 0), SECONDS(30));
        assert_eq!(wait(Some(SECONDS(0)), 9), FIRST);
    }
}
