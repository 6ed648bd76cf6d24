//! Time zones by the names of the IANA list. A system's own database has more files than that: `localtime` and `posixrules`, which mean
//! another zone on each machine, and `right/...`, which counts leap seconds.

use std::collections::BTreeSet;

use jiff::tz::{self, TimeZone, TimeZoneDatabase, TimeZoneName};

use crate::nearest;

/// The areas of zones that are places. A zone that is newer than the built-in list is in one of them.
const AREAS: [&str; 10] =
    ["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"];
/// Zones of nobody: that of a machine that was never set up, which is in the list, and jiff's own for an unknown one.
const UNSET: [&str; 2] = ["Factory", "Etc/Unknown"];

/// Finds a zone by its IANA name, in any case. The system's data comes before the built-in data, which has every name of the list.
///
/// # Errors
/// There is no such zone. The error suggests the nearest name.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    let built_in = TimeZoneDatabase::bundled().get(name).ok().filter(|_| !is_unset(name));
    let found = match built_in {
        Some(zone) => Some(TimeZone::get(name).unwrap_or(zone)),
        None => TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some_and(is_place)),
    };
    found.ok_or_else(|| match nearest(name, zone_names().iter().map(String::as_str)) {
        Some(name) => format!("is not an IANA time zone; did you mean {name:?}?"),
        None => "is not an IANA time zone; write for example \"Europe/Berlin\"".to_owned(),
    })
}

/// Checks the name of a zone, and returns it as the list spells it.
///
/// # Errors
/// See [`time_zone`].
pub fn zone(text: &str) -> Result<String, String> {
    time_zone(text).map(|zone| zone.iana_name().unwrap_or(text).to_owned())
}

/// The names of all zones.
#[must_use]
pub fn zone_names() -> BTreeSet<String> {
    let named = |name: TimeZoneName<'_>| name.as_str().to_owned();
    let built_in = TimeZoneDatabase::bundled();
    let system = tz::db().available().map(named).filter(|name| is_place(name));
    built_in.available().map(named).filter(|name| !is_unset(name)).chain(system).collect()
}

fn is_unset(name: &str) -> bool {
    UNSET.iter().any(|unset| unset.eq_ignore_ascii_case(name))
}

/// Tells if a zone is named after a place.
#[must_use]
pub fn is_place(name: &str) -> bool {
    name.split_once('/').is_some_and(|(area, _)| AREAS.contains(&area))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_iana_list_are_zones() {
        for name in ["Europe/Berlin", "US/Pacific", "Asia/Calcutta", "Europe/Kiev", "EST5EDT", "Etc/GMT-14", "UTC"] {
            assert_eq!(zone(name).as_deref(), Ok(name));
        }
        assert_eq!(zone("europe/BERLIN").as_deref(), Ok("Europe/Berlin"));
        for name in [
            "",
            "localtime",
            "posixrules",
            "Factory",
            "factory",
            "Etc/Unknown",
            "right/Europe/Berlin",
            "posix/Europe/Berlin",
            "../../etc/passwd",
            "GMT+2",
            "+02:00",
            "Europe/Berlin ",
            "W. Europe Standard Time",
        ] {
            assert!(time_zone(name).is_err(), "{name}");
        }
        assert!(zone("Europe/Berln").unwrap_err().contains("did you mean \"Europe/Berlin\"?"));
    }

    #[test]
    fn every_listed_name_is_a_zone() {
        let names = zone_names();
        assert!(names.len() > 400 && names.iter().all(|name| time_zone(name).is_ok()));
    }
}
