//! Each process describes itself in the store, so we can compare them (rule 59).
//!
//! Every worker and gateway trusts its own configuration file, keys, clock and database. Processes where
//! these differ silently harm each other, so irreversible work waits until all workers agree.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use jiff::{SignedDuration, Timestamp, fmt::friendly::SpanPrinter};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{hex, installation::GONE_AFTER, stored_wait::CLOCK_TOLERANCE};

pub const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// Upkeep runs every night.
pub const UPKEEP_LATE_AFTER: SignedDuration = SignedDuration::from_hours(48);
/// Rules out accidental collisions.
const FINGERPRINT_BYTES: usize = 6;

closed_set! {
    pub enum ProcessRole {
        Worker = "worker",
        Gateway = "gateway",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessRecord {
    pub id: Uuid,
    /// By the store's clock.
    pub seen_at: Timestamp,
    pub profile: ProcessProfile,
}

/// Newer versions add fields, so older ones may lack some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessProfile {
    pub role: ProcessRole,
    pub version: String,
    pub host: String,
    pub pid: u32,
    pub task_queue: String,
    /// Per table of the configuration, excluding settings which may differ by host.
    #[serde(default)]
    pub sections: BTreeMap<String, String>,
    #[serde(default)]
    pub former_types: BTreeSet<String>,
    /// The first one signs.
    #[serde(default)]
    pub link_keys: Vec<String>,
    /// A gateway may have none.
    #[serde(default)]
    pub dkim_keys: BTreeSet<String>,
    #[serde(default)]
    pub installation: Option<Uuid>,
    /// The open SQLite file; `None` for PostgreSQL.
    #[serde(default)]
    pub file: Option<FileId>,
    #[serde(default)]
    pub clock: ClockOffsets,
}

/// Independent of its path. Note: containers may number the device differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

/// In milliseconds; negative if the process is behind. `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffsets {
    pub store_ms: Option<i64>,
    pub temporal_ms: Option<i64>,
}

impl ProcessRecord {
    /// The heartbeat may be in the future, because clocks differ.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen_at).abs() < GONE_AFTER
    }
}

impl ProcessProfile {
    #[must_use]
    pub fn new(role: ProcessRole, host: &str, pid: u32, task_queue: &str) -> Self {
        Self {
            role,
            version: String::new(),
            host: host.to_owned(),
            pid,
            task_queue: task_queue.to_owned(),
            sections: BTreeMap::new(),
            former_types: BTreeSet::new(),
            link_keys: Vec::new(),
            dkim_keys: BTreeSet::new(),
            installation: None,
            file: None,
            clock: ClockOffsets::default(),
        }
    }

    /// For operators, e.g. `worker mail-1:4711`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}:{}", self.role, self.host, self.pid)
    }

    #[must_use]
    pub fn has_digest_type(&self, name: &str) -> bool {
        self.sections.contains_key(&digest_section(name)) || self.former_types.contains(name)
    }
}

impl ClockOffsets {
    /// E.g. "1h behind Temporal's". If this clock agrees with Temporal's, another one is wrong.
    #[must_use]
    pub fn clock_fault(self) -> Option<String> {
        if self.temporal_ms.is_some() { off_by(self.temporal_ms, "Temporal's") } else { self.store_fault() }
    }

    fn store_fault(self) -> Option<String> {
        off_by(self.store_ms, "the database's")
    }

    /// Describes an offset of over a minute, of this process or of the database.
    fn process_fault(self, name: &str) -> Option<String> {
        let of_store = || Some(format!("{name} agrees with Temporal's and is {}", self.store_fault()?));
        self.clock_fault().map(|fault| format!("{name} is {fault}")).or_else(of_store)
    }
}

fn off_by(milliseconds: Option<i64>, whose: &str) -> Option<String> {
    let offset = SignedDuration::from_millis(milliseconds?);
    let by = SpanPrinter::new().duration_to_string(&SignedDuration::from_secs(offset.abs().as_secs()));
    let side = if offset.is_negative() { "behind" } else { "ahead of" };
    (offset.abs() > CLOCK_TOLERANCE).then(|| format!("{by} {side} {whose}"))
}

/// Our clock read `begun` before and `ended` after the other one read `other`. The uncertainty counts as no
/// offset.
#[must_use]
pub fn clock_offset(begun: Timestamp, other: Timestamp, ended: Timestamp) -> SignedDuration {
    begun.duration_since(other).max(SignedDuration::ZERO) + ended.duration_since(other).min(SignedDuration::ZERO)
}

#[must_use]
pub fn digest_section(name: &str) -> String {
    format!("digest.{name}")
}

/// Reveals nothing about the bytes.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..FINGERPRINT_BYTES])
}

#[must_use]
pub fn live_processes(processes: Vec<ProcessRecord>, now: Timestamp) -> Vec<ProcessRecord> {
    processes.into_iter().filter(|process| process.is_live(now)).collect()
}

closed_set! {
    pub enum ProcessAspect {
        Configuration = "configuration",
        LinkKeys = "link_keys",
        DkimKeys = "dkim_keys",
        Clock = "clock",
        Installation = "installation",
        Database = "database",
        TaskQueue = "task_queue",
        Version = "version",
    }
}

impl ProcessAspect {
    /// Versions differ during an update, and task queues while one drains. Neither affects shared data.
    #[must_use]
    pub const fn is_expected(self) -> bool {
        matches!(self, Self::TaskQueue | Self::Version)
    }

    const fn short_description(self) -> &'static str {
        match self {
            Self::Configuration => "other settings",
            Self::LinkKeys => "other link keys",
            Self::DkimKeys => "other DKIM keys",
            Self::Clock => "a wrong clock",
            Self::Installation => "another installation",
            Self::Database => "another database file",
            Self::TaskQueue => "another task queue",
            Self::Version => "another version",
        }
    }
}

/// A difference between processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ProcessDifference))]
pub struct ProcessDifference {
    pub aspect: ProcessAspect,
    /// Which processes have which value.
    pub who: String,
}

impl fmt::Display for ProcessDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.aspect.short_description(), self.who)
    }
}

#[must_use]
pub fn find_differences(profiles: &[&ProcessProfile]) -> Vec<ProcessDifference> {
    let found = ProcessAspect::ALL
        .into_iter()
        .filter_map(|aspect| Some(ProcessDifference { aspect, who: describe_aspect(aspect, profiles)? }));
    found.collect()
}

fn describe_aspect(aspect: ProcessAspect, profiles: &[&ProcessProfile]) -> Option<String> {
    let grouped = |value: &dyn Fn(&ProcessProfile) -> Option<String>| group_by_value(profiles, value);
    match aspect {
        ProcessAspect::Configuration => {
            let groups = grouped(&|of| Some(fingerprint(format!("{:?}", of.sections).as_bytes())))?;
            Some(format!("{} ({groups})", differing_sections(profiles)))
        }
        ProcessAspect::LinkKeys => grouped(&|of| Some(or_none(of.link_keys.join("+")))),
        ProcessAspect::DkimKeys => {
            let text = |of: &ProcessProfile| of.dkim_keys.iter().cloned().collect::<Vec<_>>().join("+");
            grouped(&|of| Some(text(of)).filter(|keys| !keys.is_empty()))
        }
        ProcessAspect::Clock => {
            let wrong: BTreeSet<_> = profiles.iter().filter_map(|of| of.clock.process_fault(&of.name())).collect();
            (!wrong.is_empty()).then(|| wrong.into_iter().collect::<Vec<_>>().join("; "))
        }
        ProcessAspect::Installation => grouped(&|of| Some(of.installation?.to_string())),
        ProcessAspect::Database => grouped(&|of| Some(format!("inode {}", of.file?.inode))),
        ProcessAspect::TaskQueue => grouped(&|of| Some(of.task_queue.clone())),
        ProcessAspect::Version => grouped(&|of| Some(of.version.clone())),
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

/// `None` if all values agree. A process without a value agrees with all.
fn group_by_value(profiles: &[&ProcessProfile], value: &dyn Fn(&ProcessProfile) -> Option<String>) -> Option<String> {
    let mut groups = BTreeMap::<_, BTreeSet<_>>::new();
    for profile in profiles {
        if let Some(value) = value(profile) {
            groups.entry(value).or_default().insert(profile.name());
        }
    }
    let in_words = |(value, names): (&String, &BTreeSet<String>)| {
        format!("{value} in {}", names.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    (groups.len() > 1).then(|| groups.iter().map(in_words).collect::<Vec<_>>().join("; "))
}

/// E.g. `[digest.news], [retention]`.
fn differing_sections(profiles: &[&ProcessProfile]) -> String {
    let names: BTreeSet<_> = profiles.iter().flat_map(|of| of.sections.keys()).collect();
    let differs = |name: &&&String| {
        let values: BTreeSet<_> = profiles.iter().map(|of| of.sections.get(name.as_str())).collect();
        values.len() > 1
    };
    names.iter().filter(differs).map(|name| format!("[{name}]")).collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the workers of this installation disagree, so nothing is deleted: {0}. Give them all the same configuration and \
     keys and restart them, or stop the ones that differ; a stopped worker counts for another minute"
)]
pub struct WorkerDisagreement(pub String);

/// # Errors
/// If they disagree.
pub fn check_agreement(live: &[ProcessRecord], own: Option<&ProcessProfile>) -> Result<(), WorkerDisagreement> {
    let workers = live.iter().map(|process| &process.profile).filter(|profile| profile.role == ProcessRole::Worker);
    let profiles: Vec<_> = workers.chain(own).collect();
    let differences: Vec<_> = find_differences(&profiles)
        .into_iter()
        .filter(|found| !found.aspect.is_expected())
        .map(|found| found.to_string())
        .collect();
    if differences.is_empty() { Ok(()) } else { Err(WorkerDisagreement(differences.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(role: ProcessRole, pid: u32) -> ProcessProfile {
        ProcessProfile {
            version: "0.1.0".into(),
            sections: [("digest.activity", "aa"), ("retention", "bb")]
                .map(|(name, of)| (name.into(), of.into()))
                .into(),
            link_keys: vec!["11".into()],
            dkim_keys: ["d1".to_owned()].into(),
            installation: Some(Uuid::from_u128(1)),
            file: Some(FileId { device: 1, inode: 2 }),
            clock: ClockOffsets { store_ms: Some(3), temporal_ms: Some(-60_000) },
            ..ProcessProfile::new(role, "mail", pid, "tidings")
        }
    }

    fn process(seconds: i64, profile: ProcessProfile) -> ProcessRecord {
        let seen_at = Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        ProcessRecord { id: Uuid::from_u128(u128::from(profile.pid)), seen_at, profile }
    }

    type Change = fn(&mut ProcessProfile);

    /// For each aspect: a change that makes processes differ in it, and part of the message.
    const CHANGES: [(ProcessAspect, Change, &str); ProcessAspect::ALL.len()] = [
        (ProcessAspect::Configuration, |of| drop(of.sections.remove("retention")), "[retention] ("),
        (ProcessAspect::LinkKeys, |of| of.link_keys.clear(), "11 in worker mail:1; none in worker mail:2"),
        (
            ProcessAspect::DkimKeys,
            |of| of.dkim_keys.extend(["d0".to_owned()]),
            "d0+d1 in worker mail:2; d1 in worker mail:1",
        ),
        (
            ProcessAspect::Clock,
            |of| of.clock.store_ms = Some(86_400_000),
            "worker mail:2 agrees with Temporal's and is 24h ahead of",
        ),
        (
            ProcessAspect::Installation,
            |of| of.installation = Some(Uuid::nil()),
            "00000000-0000-0000-0000-000000000000 in worker mail:2",
        ),
        (
            ProcessAspect::Database,
            |of| of.file = Some(FileId { device: 1, inode: 3 }),
            "inode 2 in worker mail:1; inode 3 in",
        ),
        (
            ProcessAspect::TaskQueue,
            |of| of.task_queue = "mail".into(),
            "mail in worker mail:2; tidings in worker mail:1",
        ),
        (ProcessAspect::Version, |of| of.version = "0.2.0".into(), "0.1.0 in worker mail:1; 0.2.0 in worker mail:2"),
    ];

    #[test]
    fn each_difference_is_named_with_who_has_what() {
        let first = profile(ProcessRole::Worker, 1);
        for (aspect, change, words) in CHANGES {
            let mut second = profile(ProcessRole::Worker, 2);
            assert_eq!(find_differences(&[&first, &second]), []);
            change(&mut second);
            let [found] = &find_differences(&[&first, &second])[..] else { panic!("{aspect}") };
            assert_eq!(found.aspect, aspect);
            assert!(found.who.contains(words), "{found}");
        }
    }

    #[test]
    fn what_cannot_be_undone_waits_while_live_workers_or_the_asker_differ() {
        for (aspect, change, _) in CHANGES {
            let mut other = profile(ProcessRole::Worker, 2);
            change(&mut other);
            let workers = [process(0, profile(ProcessRole::Worker, 1)), process(0, other.clone())];
            assert_eq!(check_agreement(&workers, None).is_ok(), aspect.is_expected(), "{aspect}");
            assert_eq!(check_agreement(&workers[..1], Some(&other)).is_ok(), aspect.is_expected(), "{aspect}");
            let gateway = ProcessProfile { role: ProcessRole::Gateway, ..other };
            assert_eq!(
                check_agreement(&[workers[0].clone(), process(0, gateway)], None),
                Ok(()),
                "a gateway deletes nothing"
            );
        }
        assert_eq!(check_agreement(&[], None), Ok(()));
    }

    #[test]
    fn a_process_without_a_value_agrees_with_all() {
        let (worker, mut gateway) = (profile(ProcessRole::Worker, 1), profile(ProcessRole::Gateway, 2));
        gateway.dkim_keys.clear();
        (gateway.installation, gateway.file, gateway.clock) = (None, None, ClockOffsets::default());
        assert_eq!(find_differences(&[&worker, &gateway]), []);
    }

    #[test]
    fn a_process_is_alive_for_a_minute() {
        let now = process(0, profile(ProcessRole::Worker, 1)).seen_at;
        for (seen, alive) in [(0, true), (-59, true), (-60, false), (59, true), (86_400, false)] {
            assert_eq!(process(seen, profile(ProcessRole::Worker, 1)).is_live(now), alive, "{seen}");
        }
    }

    #[test]
    fn a_clock_is_wrong_by_more_than_a_minute_beyond_what_the_readings_leave_open() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        for (begun, other, ended, offset) in
            [(100, 100, 100, 0), (100, 105, 110, 0), (100, 90, 110, 10), (100, 170, 110, -60), (100, 171, 110, -61)]
        {
            let offset_ms = clock_offset(at(begun), at(other), at(ended)).as_millis();
            assert_eq!(offset_ms, offset * 1000, "{begun} {other} {ended}");
        }
        for (seconds, words) in
            [(60, None), (-60, None), (61, Some("1m 1s ahead of Temporal's")), (-86_400, Some("24h behind Temporal's"))]
        {
            let clock = ClockOffsets { store_ms: Some(0), temporal_ms: Some(seconds * 1000) };
            assert_eq!(clock.clock_fault().as_deref(), words, "{seconds}");
        }
        for (temporal_ms, fault) in [(None, Some("1h ahead of the database's")), (Some(60_000), None)] {
            let clock = ClockOffsets { store_ms: Some(3_600_000), temporal_ms };
            assert_eq!(
                clock.clock_fault().as_deref(),
                fault,
                "the database's clock is wrong if Temporal's agrees with ours"
            );
        }
    }

    #[test]
    fn a_digest_type_is_known_by_each_name_that_it_had() {
        let former_types = ["recap".to_owned()].into();
        let profile = ProcessProfile { former_types, ..profile(ProcessRole::Worker, 1) };
        let known = ["activity", "recap", "other"].map(|name| profile.has_digest_type(name));
        assert_eq!(known, [true, true, false]);
    }

    #[test]
    fn a_profile_of_another_version_is_read() {
        let text =
            r#"{"role": "gateway", "version": "9", "host": "a", "pid": 1, "task_queue": "tidings", "moon": "full"}"#;
        let read: ProcessProfile = serde_json::from_str(text).unwrap();
        assert_eq!((read.name().as_str(), read.sections.len()), ("gateway a:1", 0));
    }
}
