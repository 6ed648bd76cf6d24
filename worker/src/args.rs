//! Arguments that several commands share.

use std::env;

use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use jiff::{Span, Timestamp, Zoned, tz::TimeZone};
use tidings_model::command::Order;

use crate::error::Usage;

/// The operator and the reason.
#[derive(Debug, Args)]
pub(crate) struct Reason {
    /// The reason, for the audit trail and workflow history; without addresses
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Your login for the audit trail, not an address [default: your login on this machine]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
}

impl Reason {
    /// Checks the operator, which defaults to the login, and the reason.
    ///
    /// # Errors
    /// One of them is invalid, or the login is unknown.
    pub(crate) fn order(self) -> Result<Order, Usage> {
        let by = self.by.or_else(login).ok_or_else(|| Usage(BY_WHOM.to_owned()))?;
        let order = Order { by, why: self.why };
        order.check().map_err(|error| Usage(format!("--{error}")))?;
        Ok(order)
    }
}

/// The operator and an optional reason.
#[derive(Debug, clap::Args)]
pub(crate) struct OptionalReason {
    /// Your login for the audit trail, not an address [default: your login on this machine]
    #[arg(long, value_name = "LOGIN")]
    by: Option<String>,
    /// The reason, for the audit trail [default: the command]
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

impl OptionalReason {
    pub(crate) fn order(self, command: &str) -> Result<Order, Usage> {
        let by = self.by.or_else(login).unwrap_or_else(|| "unknown".to_owned());
        let order = Order { by, why: self.why.unwrap_or_else(|| command.to_owned()) };
        order.check().map_err(|error| Usage(format!("--{error}")))?;
        Ok(order)
    }
}

/// The error without a login.
const BY_WHOM: &str =
    "--by: is required, because neither USER nor LOGNAME says who you are; write for example --by ann";

pub(crate) fn login() -> Option<String> {
    ["USER", "LOGNAME"].into_iter().find_map(|name| env::var(name).ok().filter(|login| !login.is_empty()))
}

/// Parses a time, or a span from now with days of 24 hours. The result lies in the future.
pub(crate) fn later(text: &str) -> Result<Timestamp, String> {
    let now = Timestamp::now();
    let at = time_or_span(text, |span| now.to_zoned(TimeZone::UTC).checked_add(span));
    let at = at.ok_or("is neither a time nor a span; write for example 2026-12-01T08:00:00Z, 2h or 14d")?;
    if at > now { Ok(at) } else { Err("is in the past".to_owned()) }
}

/// Parses a time, or a span before now with days of 24 hours.
pub(crate) fn moment(text: &str) -> Result<Timestamp, String> {
    let at = time_or_span(text, |span| Timestamp::now().to_zoned(TimeZone::UTC).checked_sub(span));
    at.ok_or_else(|| "is neither a time nor a span; write for example 2026-11-01T08:00:00Z, 2h or 14d".to_owned())
}

/// Reads a time, or a span that `at` turns into one. `None`: the text is neither, or the span is too long.
fn time_or_span(text: &str, at: impl FnOnce(Span) -> Result<Zoned, jiff::Error>) -> Option<Timestamp> {
    text.parse().ok().or_else(|| Some(at(text.parse().ok()?).ok()?.timestamp()))
}

/// Reads a value of a closed set by its name. The help lists the names.
pub(crate) fn one_of<T, const N: usize>(all: [T; N], name: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let named = move |word: String| all.into_iter().find(|value| name(*value) == word).ok_or("is not known");
    PossibleValuesParser::new(all.map(name)).try_map(named)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn a_time_or_a_span_before_now_is_accepted() {
        let ago = |hours| Timestamp::now() - SignedDuration::from_hours(hours);
        for (span, hours) in [("2h 30m", 2), ("1d", 24), ("2w", 336)] {
            let at = moment(span).unwrap();
            assert!(ago(hours + 1) < at && at <= ago(hours), "{span}: {at}");
        }
        assert_eq!(moment("2026-11-01T08:00:00Z").unwrap().to_string(), "2026-11-01T08:00:00Z");
        for wrong in ["yesterday", "", "99999999d"] {
            assert!(moment(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_future_time_or_a_span_from_now_is_accepted() {
        let in_hours = |hours| Timestamp::now() + SignedDuration::from_hours(hours);
        for (span, hours) in [("2h 30m", 2), ("1d", 24), ("14d", 336), ("1d 2h", 26), ("500d", 12_000), ("1w", 168)] {
            let at = later(span).unwrap();
            assert!(in_hours(hours - 1) < at && at < in_hours(hours + 1), "{span}: {at}");
        }
        assert_eq!(later("2126-12-01T08:00:00Z").unwrap().to_string(), "2126-12-01T08:00:00Z");
        for wrong in ["2001-01-01T00:00:00Z", "-2h", "tomorrow", "", "99999999d", "9999999999999999999h"] {
            assert!(later(wrong).is_err(), "{wrong:?}");
        }
    }
}
