//! Removes a person's lines from the archive (GDPR, article 17).

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::bufread::MultiGzDecoder;
use jiff::Timestamp;
use serde_json::Value;
use tidings_model::{EmailAddress, Key, records::HeldId};

use super::{Archive, ArchiveError, ArchiveRange, run_blocking};
use crate::archive::{PartialFile, remove_leftovers, sync_folder};
use crate::pseudonym::Pseudonyms;

pub struct LinesAbout {
    pub tenants: BTreeSet<String>,
    pub whose: LineOwner,
    /// Addresses only this person has, or their pseudonyms.
    pub addresses: BTreeSet<String>,
    pub messages: BTreeSet<String>,
    pub pseudonyms: Pseudonyms,
}

#[derive(Clone)]
pub enum LineOwner {
    Everyone,
    /// One person under every id they had. A line keeps the id from its time.
    Ids(Vec<HeldId>),
}

impl LinesAbout {
    fn matches_line(&self, line: &Value) -> bool {
        match text_or_empty(&line["kind"]) {
            "event" => self.names_person(line, &line["recorded_at"]),
            "retract" => self.names_person(line, &line["retracted_at"]),
            "message" => self.has_message(line),
            "delivery_event" => {
                self.messages.contains(text_or_empty(&line["message"]))
                    || self.is_tenants(line) && self.has_address(text_or_empty(&line["address"]))
            }
            "dead_letter" => Key::from_workflow_id(text_or_empty(&line["workflow_id"]))
                .is_ok_and(|key| self.tenants.contains(&key.tenant) && self.is_theirs(&key.user, &line["buried_at"])),
            "webhook_dead_letter" => {
                let mut words = text_or_empty(&line["head"]).split(|c: char| !c.is_ascii_hexdigit() && c != '-');
                words.any(|word| self.messages.contains(word))
            }
            _ => false,
        }
    }

    fn has_message(&self, line: &Value) -> bool {
        let (digest, single, at) = (&line["origin"]["digest"], &line["origin"]["single"], &line["created_at"]);
        let nobodys = single.is_object() && single["user"].is_null() && self.is_tenants(single);
        self.names_person(digest, at)
            || self.names_person(single, at)
            || nobodys && self.has_address(text_or_empty(&line["envelope_to"]))
    }

    fn names_person(&self, row: &Value, at: &Value) -> bool {
        self.is_tenants(row) && row["user"].as_str().is_some_and(|user| self.is_theirs(user, at))
    }

    fn is_tenants(&self, row: &Value) -> bool {
        self.tenants.contains(text_or_empty(&row["tenant"]))
    }

    /// Returns `true` if the id belonged to the person at this time. A line without a time counts as theirs.
    fn is_theirs(&self, user: &str, at: &Value) -> bool {
        let at: Option<Timestamp> = text_or_empty(at).parse().ok();
        let within = |held: &HeldId| {
            at.is_none_or(|at| held.since.is_none_or(|since| since <= at) && held.until.is_none_or(|until| at <= until))
        };
        match &self.whose {
            LineOwner::Everyone => true,
            LineOwner::Ids(held) => held.iter().any(|held| held.user == user && within(held)),
        }
    }

    fn has_address(&self, address: &str) -> bool {
        let folded = EmailAddress::normalize_address(address);
        matches!(self.whose, LineOwner::Everyone)
            || self.addresses.contains(&folded)
            || self.tenants.iter().any(|tenant| self.addresses.contains(&self.pseudonyms.pseudonym_of(tenant, &folded)))
    }
}

fn text_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Archive {
    /// `None` if there is no file or no folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn file_range(&self) -> Result<Option<ArchiveRange>, ArchiveError> {
        let folder = self.folder().to_owned();
        run_blocking(folder.clone(), move || {
            if !folder.is_dir() {
                return Ok(None);
            }
            let files = archive_files(&folder)?;
            let name = |file: &PathBuf| {
                let below = file.strip_prefix(&folder).unwrap_or(file);
                below.to_string_lossy().into_owned()
            };
            let ends = files.first().zip(files.last());
            Ok(ends.map(|(first, last)| ArchiveRange { first: name(first), last: name(last) }))
        })
        .await
    }

    /// The files, by the age of their rows.
    ///
    /// # Errors
    /// The folder is missing or cannot be read.
    pub async fn files(&self) -> Result<Vec<PathBuf>, ArchiveError> {
        let folder = self.folder().to_owned();
        run_blocking(folder.clone(), move || archive_files(&folder)).await
    }

    /// # Errors
    /// The file cannot be read.
    pub async fn read_lines(file: PathBuf, about: Arc<LinesAbout>) -> Result<Vec<String>, ArchiveError> {
        run_blocking(file.clone(), move || Ok(split_file(&file, &about)?.removed)).await
    }

    /// # Errors
    /// The folder is missing, or a file cannot be read.
    pub async fn count_lines(&self, about: LinesAbout) -> Result<u64, ArchiveError> {
        self.each_file(move |file| Ok(split_file(file, &about)?.removed.len() as u64)).await
    }

    /// Rewrites each file with lines about a person, and returns the number of lines removed. Each file is
    /// replaced atomically, so a crash leaves it either old or new. Also deletes all incomplete files of
    /// killed processes.
    ///
    /// # Errors
    /// The folder is missing, a file cannot be read, or the disk is full.
    pub async fn forget_lines(&self, about: LinesAbout) -> Result<u64, ArchiveError> {
        let folder = self.folder().to_owned();
        run_blocking(folder.clone(), move || day_folders(&folder)?.iter().try_for_each(|day| remove_leftovers(day)))
            .await?;
        self.each_file(move |file| rewrite_file(file, &about)).await
    }

    async fn each_file(&self, work: impl Fn(&Path) -> io::Result<u64> + Send + 'static) -> Result<u64, ArchiveError> {
        let folder = self.folder().to_owned();
        run_blocking(folder.clone(), move || {
            let mut sum = 0;
            for file in archive_files(&folder)? {
                let done = work(&file);
                sum += done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
            }
            Ok(sum)
        })
        .await
    }
}

struct LineSplit {
    kept: Vec<String>,
    removed: Vec<String>,
}

fn split_file(file: &Path, about: &LinesAbout) -> io::Result<LineSplit> {
    let mut split = LineSplit { kept: Vec::new(), removed: Vec::new() };
    for line in BufReader::new(MultiGzDecoder::new(BufReader::new(File::open(file)?))).lines() {
        let line = line?;
        if serde_json::from_str(&line).is_ok_and(|line| about.matches_line(&line)) {
            split.removed.push(line);
        } else {
            split.kept.push(line);
        }
    }
    Ok(split)
}

fn rewrite_file(file: &Path, about: &LinesAbout) -> io::Result<u64> {
    let LineSplit { kept, removed } = split_file(file, about)?;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Ok(0);
    };
    if removed.is_empty() {
        return Ok(0);
    }
    if kept.is_empty() {
        fs::remove_file(file)?;
        sync_folder(folder)?;
    } else {
        PartialFile::write_lines(folder, name, &kept)?.publish(file)?;
    }
    Ok(removed.len() as u64)
}

fn archive_files(archive: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for day in day_folders(archive)? {
        files.extend(folder_entries(&day)?.into_iter().filter(|file| is_archive(file)));
    }
    Ok(files)
}

fn day_folders(archive: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(folder_entries(archive)?.into_iter().filter(|path| path.is_dir()).collect())
}

fn folder_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Incomplete files start with a dot.
fn is_archive(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".ndjson.gz") && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use tidings_model::retention::RetentionKind;

    use super::*;
    use crate::archive::ArchiveBatch;

    fn about() -> LinesAbout {
        LinesAbout {
            tenants: ["acme".to_owned()].into(),
            whose: LineOwner::Ids(vec![HeldId { user: "ann".into(), since: None, until: None }]),
            addresses: ["ann@example.com".to_owned()].into(),
            messages: ["m1".to_owned(), "a1".to_owned()].into(),
            pseudonyms: Pseudonyms::new(b"secret"),
        }
    }

    #[test]
    fn lines_belong_to_a_person_by_key_message_or_address() {
        let key = json!({"tenant": "acme", "digest_type": "activity", "user": "ann"});
        let to = |origin: Value, to: &str| json!({"kind": "message", "origin": origin, "envelope_to": to});
        let single = |user: Value| json!({"single": {"tenant": "acme", "key": "welcome", "user": user}});
        for (line, expected) in [
            (json!({"kind": "event", "tenant": "acme", "user": "ann"}), true),
            (json!({"kind": "event", "tenant": "other", "user": "ann"}), false),
            (json!({"kind": "retract", "tenant": "acme", "user": "bo"}), false),
            (to(json!({"digest": key}), "old@example.com"), true),
            (to(single("ann".into()), "old@example.com"), true),
            (to(single(Value::Null), "Ann@example.com"), true),
            (to(single("bo".into()), "ann@example.com"), false),
            (json!({"kind": "delivery_event", "tenant": "acme", "message": "m1", "address": "x@y.example"}), true),
            (json!({"kind": "delivery_event", "tenant": "acme", "message": "m2", "address": "ann@example.com"}), true),
            (
                json!({"kind": "delivery_event", "tenant": "other", "message": "m2", "address": "ann@example.com"}),
                false,
            ),
            (json!({"kind": "dead_letter", "workflow_id": "digest/acme/activity/ann"}), true),
            (json!({"kind": "dead_letter", "workflow_id": "digest/acme/activity/bo"}), false),
            (json!({"kind": "webhook_dead_letter", "head": "{\"tidings_message\":\"a1\"}"}), true),
            (json!({"kind": "webhook_dead_letter", "head": "{\"tidings_message\":\"a2\"}"}), false),
        ] {
            assert_eq!(about().matches_line(&line), expected, "{line}");
        }
        // After a crash only the pseudonym is known.
        let pseudonym = about().pseudonyms.pseudonym_of("acme", "ann@example.com");
        let resumed = LinesAbout { addresses: [pseudonym].into(), ..about() };
        assert!(resumed.matches_line(&to(single(Value::Null), "Ann@example.com")));
    }

    #[test]
    fn a_line_belongs_to_whoever_had_its_id_then_under_each_name_of_the_tenant() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let held = |user: &str, since: Option<i64>, until: Option<i64>| HeldId {
            user: user.into(),
            since: since.map(at),
            until: until.map(at),
        };
        // Ann was renamed to anna at 100, and somebody else got the id.
        let anna = LineOwner::Ids(vec![held("ann", None, Some(100)), held("anna", None, None)]);
        let tenants = BTreeSet::from(["acme".to_owned(), "initech".to_owned()]);
        let anna = LinesAbout { tenants, whose: anna, ..about() };
        let next = LinesAbout { whose: LineOwner::Ids(vec![held("ann", Some(100), None)]), ..about() };
        let everyone = LinesAbout { whose: LineOwner::Everyone, ..about() };
        let event = |tenant: &str, user: &str, second: i64| json!({"kind": "event", "tenant": tenant, "user": user, "recorded_at": at(second)});
        let letter = |user: &str, second: i64| json!({"kind": "dead_letter", "workflow_id": format!("digest/acme/activity/{user}"), "buried_at": at(second)});
        for (line, is_annas, is_the_next_ones) in [
            (event("acme", "ann", 50), true, false),
            (event("acme", "ann", 150), false, true),
            (event("acme", "anna", 150), true, false),
            (event("initech", "ann", 50), true, false),
            (letter("ann", 50), true, false),
            (letter("ann", 150), false, true),
        ] {
            assert_eq!((anna.matches_line(&line), next.matches_line(&line)), (is_annas, is_the_next_ones), "{line}");
        }
        assert!(everyone.matches_line(&event("acme", "zoe", 1)) && !everyone.matches_line(&event("other", "zoe", 1)));
    }

    #[tokio::test]
    async fn files_lose_the_lines_of_a_person_and_empty_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().to_owned());
        let anns = json!({"kind": "event", "tenant": "acme", "user": "ann"}).to_string();
        let bos = json!({"kind": "event", "tenant": "acme", "user": "bo"}).to_string();
        for (since, lines) in [("T03:30:00Z", vec![anns.clone(), bos.clone()]), ("T03:31:00Z", vec![anns])] {
            let since = format!("2026-08-23{since}").parse().unwrap();
            archive
                .prepare_batch(ArchiveBatch { kind: RetentionKind::Events, since, lines })
                .await
                .unwrap()
                .publish()
                .await
                .unwrap();
        }
        let leftover = folder.path().join("2026-08-23/.events-033000-0f.ndjson.gz.0f.part");
        fs::write(&leftover, "a killed worker's half of ann's events").unwrap();
        assert_eq!(archive.count_lines(about()).await.unwrap(), 2);
        assert!(leftover.exists());
        for forgotten in [2, 0] {
            assert_eq!(archive.forget_lines(about()).await.unwrap(), forgotten);
        }
        assert!(!leftover.exists());
        let files = folder_entries(&folder.path().join("2026-08-23")).unwrap();
        let [file] = &files[..] else { panic!("{files:?}") };
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(split_file(file, &about()).unwrap().kept, [bos]);
        let missing = Archive::new(folder.path().join("missing"));
        assert!(missing.forget_lines(about()).await.unwrap_err().to_string().contains("missing"));
    }
}
