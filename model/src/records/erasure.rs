//! The erasure of a person (GDPR, article 17).

use std::ops::AddAssign;

use serde::Serialize;

/// Rows that an erasure changed, or would change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Erased {
    /// Rows of the directory.
    pub recipients: u64,
    pub preferences: u64,
    pub consents: u64,
    /// Suppressions that have a pseudonym instead of the address.
    pub suppressions: u64,
    /// Digests that cannot be sent again.
    pub digests: u64,
    /// Events that keep their id, category and times only.
    pub events: u64,
    pub retracts: u64,
    /// Messages without bytes and subject, with a pseudonym instead of the address.
    pub messages: u64,
    /// Delivery events without the provider's text, with a pseudonym instead of the address.
    pub delivery_events: u64,
    pub dead_letters: u64,
    /// Events and retracts in the gateway's inbox.
    pub inbox: u64,
    /// Lines of the archive.
    pub archived: u64,
}

impl Erased {
    /// The counts, each with its name.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 12] {
        [
            ("recipients", self.recipients),
            ("preferences", self.preferences),
            ("consents", self.consents),
            ("suppressions", self.suppressions),
            ("digests", self.digests),
            ("events", self.events),
            ("retracts", self.retracts),
            ("messages", self.messages),
            ("delivery_events", self.delivery_events),
            ("dead_letters", self.dead_letters),
            ("inbox", self.inbox),
            ("archived", self.archived),
        ]
    }

    /// `true` if no row was, or would be, changed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Erased {
    fn add_assign(&mut self, more: Self) {
        self.recipients += more.recipients;
        self.preferences += more.preferences;
        self.consents += more.consents;
        self.suppressions += more.suppressions;
        self.digests += more.digests;
        self.events += more.events;
        self.retracts += more.retracts;
        self.messages += more.messages;
        self.delivery_events += more.delivery_events;
        self.dead_letters += more.dead_letters;
        self.inbox += more.inbox;
        self.archived += more.archived;
    }
}
