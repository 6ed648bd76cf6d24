//! Facts for the tests of rules.

use crate::records::{Facts, Preferences, Reading};

/// Facts of a recipient who is not in the directory and chose nothing.
pub(super) fn facts() -> Facts {
    Facts {
        recipient: None,
        preferences: Preferences::default(),
        revision: 0,
        changed_at: None,
        consent: true,
        suppressed: None,
        last_sent_at: None,
        reading: Reading::default(),
        pause: None,
        answered_at: None,
        missing: None,
    }
}
