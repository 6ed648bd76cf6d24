//! Phrases shared by several commands.

use std::fmt::Write as _;

use jiff::{Timestamp, tz::TimeZone};
use tidings_model::{Key, attempt::AttemptPhase, records::AttemptRecord, when};

pub(crate) fn nothing_pending(key: &Key) -> String {
    format!("{key}: nothing pending")
}

pub(crate) fn format_count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub(crate) fn local(at: Timestamp) -> String {
    when::local_time(at, TimeZone::system())
}

pub(crate) fn attempt_in_words(attempt: &AttemptRecord, zone: &TimeZone) -> String {
    let AttemptRecord { relay, begun_at, past_the_dot_at, phase, class, reply, late, .. } = attempt;
    let mut text = format!("{} by {relay}: ", when::local_time(*begun_at, zone.clone()));
    text += match class {
        Some(class) => class.name(),
        None if past_the_dot_at.is_some() => "committed",
        None => "in progress",
    };
    for (before, part) in [(" at ", phase.map(AttemptPhase::name)), (": ", reply.as_deref())] {
        if let Some(part) = part.filter(|part| !part.is_empty()) {
            text += before;
            text += part;
        }
    }
    if let Some(late) = late {
        let _ =
            write!(text, "; {} reported later: {} {}", when::local_time(late.at, zone.clone()), late.class, late.reply);
    }
    text
}
