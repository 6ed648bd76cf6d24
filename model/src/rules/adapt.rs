//! Adapts the cadence of a recipient who opens nothing: with `adapt`, a digest is sent weekly instead of more
//! often (rule 48).
//!
//! This only affects recipients who opened or clicked something before: without images, with Global Privacy
//! Control, or behind Apple's proxy we cannot see if they read.

use jiff::{SignedDuration, Timestamp};

use crate::{records::KeyFacts, settings::DigestSettings};

pub const UNREAD_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Returns since when the recipient has opened and clicked nothing, if we should adapt the cadence. All of
/// these must hold:
///
/// - The digest type has `adapt`, and the recipient chose no cadence.
/// - A person opened or clicked an earlier digest of this key.
/// - Since the last open or click (possibly by a person), a relay accepted at least five digests with open
///   tracking, the first at least thirty days ago.
/// - The recipient changed no preference within thirty days.
#[must_use]
pub fn unread_since(settings: &DigestSettings, facts: &KeyFacts, now: Timestamp) -> Option<Timestamp> {
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
