//! Phrases shared by several commands.

use jiff::{Timestamp, tz::TimeZone};
use tidings_model::{Key, when};

pub(crate) fn nothing_pending(key: &Key) -> String {
    format!("{key}: nothing pending")
}

pub(crate) fn format_count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub(crate) fn local(at: Timestamp) -> String {
    when::local_time(at, TimeZone::system())
}
