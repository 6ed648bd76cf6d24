//! The reader's language, zone and present, in which times are written.

use jiff::{Timestamp, tz::TimeZone};

use crate::words::Phrases;

/// The way in which times are written.
#[derive(Clone, Copy)]
pub(super) struct Local<'a> {
    pub phrases: Phrases<'a>,
    pub zone: &'a TimeZone,
    /// The reader's present: the time of the claim.
    pub now: Timestamp,
    /// Other years are written, and this one is not.
    pub this_year: i16,
}

impl Local<'_> {
    /// `Feb 3, 2:20 PM`.
    pub fn short(self, at: Timestamp) -> String {
        self.phrases.short(self.zone.to_datetime(at), self.this_year)
    }
}
