//! The reader's language, zone and present, in which times are written.

use std::{cell::RefCell, collections::BTreeMap};

use jiff::{Timestamp, civil, tz::TimeZone};

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
    pub written: &'a Written,
}

/// The times of a message that are written already, by minute. A line and its latest item share one, and so do events at once.
pub(super) type Written = RefCell<BTreeMap<civil::DateTime, String>>;

impl Local<'_> {
    /// `Feb 3, 2:20 PM`.
    pub fn short(self, at: Timestamp) -> String {
        let at = self.zone.to_datetime(at);
        let minute = at.date().at(at.hour(), at.minute(), 0, 0);
        let mut written = self.written.borrow_mut();
        written.entry(minute).or_insert_with(|| self.phrases.short(minute, self.this_year)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Words;

    #[test]
    fn a_time_is_the_same_however_often_it_is_written() {
        let (words, zone) = (Words::new(None).unwrap(), TimeZone::get("Europe/Berlin").unwrap());
        let now: Timestamp = "2025-02-03T08:00:00Z".parse().unwrap();
        for language in ["en", "ar", "ja"] {
            let (phrases, written) = (words.choose([language]), Written::default());
            let local = Local { phrases, zone: &zone, now, this_year: 2025, written: &written };
            for at in [
                "2025-02-03T07:59:59Z",
                "2025-02-03T07:59:00.000001Z",
                "2025-02-03T08:00:00Z",
                "2024-02-03T07:59:59Z",
                "2024-10-27T00:30:00Z",
                "2024-10-27T01:30:00Z",
                "2025-02-03T07:59:59Z",
            ] {
                let at = at.parse().unwrap();
                assert_eq!(local.short(at), phrases.short(zone.to_datetime(at), 2025), "{at} in {language}");
            }
            assert_eq!(written.borrow().len(), 4, "{language}");
        }
    }
}
