//! Names of time zones.

use jiff::tz::{self, TimeZone};

use crate::nearest;

/// Checks the name of an IANA time zone.
///
/// # Errors
/// The zone is unknown. The error suggests the nearest name.
pub fn zone(text: &str) -> Result<String, String> {
    TimeZone::get(text).map(|_| text.to_owned()).map_err(|_| {
        let names: Vec<_> = tz::db().available().collect();
        match nearest(text, names.iter().map(tz::TimeZoneName::as_str)) {
            Some(name) => format!("is not an IANA time zone; did you mean {name:?}?"),
            None => "is not an IANA time zone; write for example \"Europe/Berlin\"".to_owned(),
        }
    })
}
