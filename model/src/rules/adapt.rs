//! Adapts the cadence of a recipient who opens nothing: a digest type with `adapt` comes weekly instead of more often.
//!
//! Only a recipient who was seen to open or click can be missed: readers without pictures, with Global Privacy Control, or behind
//! Apple's proxy leave nothing that tells reading from not reading.

use jiff::{SignedDuration, Timestamp};

use crate::{records::Facts, settings::DigestSettings};

/// For this long nothing was opened and clicked.
pub const UNREAD_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Returns the time since which the recipient opened and clicked nothing, if that adapts the cadence. All of this must hold:
/// - The digest type has `adapt`, and the recipient chose no cadence.
/// - A person opened or clicked a digest of the key before.
/// - Since the last opening or click that may be a person's, a relay accepted five digests or more that count openings, the
///   first of them thirty days ago or earlier.
/// - The recipient changed no other choice within thirty days.
#[must_use]
pub fn unread_since(settings: &DigestSettings, facts: &Facts, now: Timestamp) -> Option<Timestamp> {
    let is_old = |at: Timestamp| now.duration_since(at) >= UNREAD_FOR;
    let chose = facts.preferences.cadence.is_some() || facts.changed_at.is_some_and(|at| !is_old(at));
    if !settings.adapt || chose {
        return None;
    }
    facts.reading.read_at.and(facts.reading.fifth_unread_at)?;
    facts.reading.unread_since.filter(|at| is_old(*at))
}

#[cfg(test)]
mod tests;
