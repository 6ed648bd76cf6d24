use crate::records::{EngagementTimes, KeyFacts, Preferences, Recipient};

/// Facts of a recipient who is not in the directory and chose nothing.
pub(super) fn facts() -> KeyFacts {
    KeyFacts {
        recipient: None,
        generation: 0,
        preferences: Preferences::default(),
        revision: 0,
        changed_at: None,
        consent: true,
        suppressed: None,
        last_sent_at: None,
        last_slot_at: None,
        last_schedule: None,
        reading: EngagementTimes::default(),
        pause: None,
        answered_at: None,
        missing: None,
    }
}

pub(super) fn recipient_in(zone: &str) -> Recipient {
    let (tenant, user, address) = ("acme".to_owned(), "ann".to_owned(), "ann@acme.example".to_owned());
    Recipient { tenant, user, address, name: String::new(), zone: zone.to_owned(), locale: String::new() }
}
