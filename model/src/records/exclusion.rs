//! Events of a window that are in no message, although the window became a digest.

use uuid::Uuid;

use crate::window::Window;

closed_set! {
    /// The reason why an event of a window is in no message.
    pub enum Exclusion {
        /// A retract took the event back.
        Retracted = "retracted",
        /// The recipient turned the event's category off.
        OptedOut = "opted out",
        /// The recipient has seen the event, by the service of the digest type.
        Seen = "seen",
        /// The event is older than its category's `max_age`.
        TooOld = "too old",
        /// The window has fewer events of the category than its `min_count`.
        TooFew = "too few",
    }
}

impl Exclusion {
    /// The digest of those events of a window that are excluded for this reason. It ends at once and sends nothing, so that the ledger
    /// has each of them with the reason (rule 1).
    #[must_use]
    pub fn digest_id(self, window: &Window) -> Uuid {
        Uuid::new_v5(&window.digest_id, self.name().as_bytes())
    }

    /// The reason in words, for the ledger.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Retracted => "retracted",
            Self::OptedOut => "the recipient turned their category off",
            Self::Seen => "the recipient has seen them elsewhere",
            Self::TooOld => "older than the max_age of their category",
            Self::TooFew => "fewer than the min_count of their category",
        }
    }
}
