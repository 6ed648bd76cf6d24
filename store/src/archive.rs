//! Archives rows as gzipped NDJSON before retention deletes them: one file per batch, one folder per day.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use tidings_model::{hex, retention::RetentionKind};
use uuid::Uuid;

mod forget;

pub use forget::{LineOwner, LinesAbout};

/// Must already exist. We never create it, because it could be the mount point of an unmounted disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    folder: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write to the archive {}: {why}; nothing is deleted until it can: make room, or correct retention.archive",
    path.display()
)]
pub struct ArchiveError {
    path: PathBuf,
    why: io::Error,
}

pub struct ArchiveBatch {
    pub kind: RetentionKind,
    pub since: Timestamp,
    pub lines: Vec<String>,
}

/// An archive's first and last file, as names below its folder; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveRange {
    pub first: String,
    pub last: String,
}

/// A complete file under a temporary name. Dropping this deletes the file.
pub struct PreparedFile {
    part: PartialFile,
    file: PathBuf,
    /// Relative to the archive's folder.
    name: String,
}

impl Archive {
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn absolute_path(&self) -> String {
        let absolute = std::path::absolute(&self.folder);
        absolute.unwrap_or_else(|_| self.folder.clone()).to_string_lossy().into_owned()
    }

    #[must_use]
    pub fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// Returns `true` if this is the file's folder, and not an empty mount point. We check the day's folder,
    /// because the file itself may be gone.
    #[must_use]
    pub fn holds_file(&self, file: &str) -> bool {
        self.is_there() && Path::new(file).parent().is_none_or(|day| self.folder.join(day).is_dir())
    }

    /// Writes the batch under a temporary name. The final name comes from the first row: after a crash
    /// between publishing and deleting, the next batch begins with the same row and replaces the file.
    ///
    /// # Errors
    /// The folder is missing or not ours, or the disk is full.
    pub async fn prepare_batch(&self, batch: ArchiveBatch) -> Result<PreparedFile, ArchiveError> {
        let folder = self.folder.clone();
        run_blocking(self.folder.clone(), move || write_batch(&folder, &batch)).await
    }
}

impl PreparedFile {
    #[must_use]
    pub fn file_range(&self) -> ArchiveRange {
        ArchiveRange { first: self.name.clone(), last: self.name.clone() }
    }

    /// Renames the file to its final name.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn publish(self) -> Result<(), ArchiveError> {
        run_blocking(self.file.clone(), move || self.part.publish(&self.file)).await
    }
}

async fn run_blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ArchiveError> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    done.flatten().map_err(|why| ArchiveError { path, why })
}

fn write_batch(archive: &Path, ArchiveBatch { kind, since, lines }: &ArchiveBatch) -> io::Result<PreparedFile> {
    let day = since.strftime("%Y-%m-%d").to_string();
    let folder = archive.join(&day);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => sync_folder(archive)?,
    }
    let hash = digest(&SHA256, lines.first().map_or("", String::as_str).as_bytes());
    let hash = hex(&hash.as_ref()[..8]);
    let name = format!("{}-{}-{hash}.ndjson.gz", kind.name(), since.strftime("%H%M%S"));
    // After a kill, the same batch is written again with the same first row, so in the same folder.
    remove_leftovers(&folder)?;
    let part = PartialFile::write_lines(&folder, &name, lines)?;
    Ok(PreparedFile { part, file: folder.join(&name), name: format!("{day}/{name}") })
}

/// A new file under a temporary name, locked while in use and deleted on drop. A file without a lock is a
/// killed process's leftover.
struct PartialFile {
    path: PathBuf,
    _locked: File,
}

impl PartialFile {
    /// Syncs the file to disk. Mode 0600, because the lines contain addresses and bodies.
    pub fn write_lines(folder: &Path, name: &str, lines: &[String]) -> io::Result<Self> {
        let (path, file) = create_locked(folder, name)?;
        let part = Self { path, _locked: file.try_clone()? };
        write_gzip(file, lines)?;
        Ok(part)
    }

    /// Replaces any file with this name.
    pub fn publish(self, file: &Path) -> io::Result<()> {
        fs::rename(&self.path, file)?;
        file.parent().map_or(Ok(()), sync_folder)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// Another process may delete the file as a leftover before we lock it; this then tries again.
fn create_locked(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    loop {
        let path = folder.join(format!(".{name}.{}.part", Uuid::new_v4().simple()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        // On a file system without locks, leftovers will stay.
        file.lock().ok();
        if fs::exists(&path)? {
            return Ok((path, file));
        }
    }
}

fn write_gzip(file: File, lines: &[String]) -> io::Result<()> {
    let mut encoder = GzEncoder::new(io::BufWriter::new(file), Compression::default());
    for line in lines {
        encoder.write_all(line.as_bytes())?;
        encoder.write_all(b"\n")?;
    }
    encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Deletes incomplete files of killed processes. Files still being written are locked and stay.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with('.') || path.extension() != Some("part".as_ref()) {
            continue;
        }
        match remove_unlocked(&path) {
            // Published or deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

fn remove_unlocked(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    if file.try_lock().is_ok() { fs::remove_file(path) } else { Ok(()) }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::PermissionsExt as _,
        thread,
    };

    use flate2::read::GzDecoder;

    use super::*;

    fn batch(lines: &[&str]) -> ArchiveBatch {
        let since = "2026-08-23T03:30:00Z".parse().unwrap();
        ArchiveBatch { kind: RetentionKind::Events, since, lines: lines.iter().map(|&line| line.to_owned()).collect() }
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn a_batch_with_the_same_first_row_replaces_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().to_owned());
        for lines in [&["{\"a\":1}"][..], &["{\"a\":1}", "{\"b\":2}"]] {
            archive.prepare_batch(batch(lines)).await.unwrap().publish().await.unwrap();
        }
        let day = folder.path().join("2026-08-23");
        let [file] = &files(&day)[..] else { panic!("one file") };
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("events-033000-") && name.ends_with(".ndjson.gz"), "{name}");
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&day).unwrap().permissions().mode() & 0o777, 0o700);
        let text = io::read_to_string(GzDecoder::new(File::open(file).unwrap())).unwrap();
        assert_eq!(text, "{\"a\":1}\n{\"b\":2}\n");
    }

    #[tokio::test]
    async fn an_unpublished_archive_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        drop(Archive::new(folder.path().to_owned()).prepare_batch(batch(&["{}"])).await.unwrap());
        assert_eq!(files(&folder.path().join("2026-08-23")), Vec::<PathBuf>::new());
    }

    #[tokio::test]
    async fn a_missing_folder_is_reported_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().join("not/mounted"));
        let error = archive.prepare_batch(batch(&["{}"])).await.err().unwrap().to_string();
        assert!(error.contains("not/mounted") && error.contains("nothing is deleted"), "{error}");
        assert!(error.contains("retention.archive"), "{error}");
    }
    #[test]
    fn leftovers_of_a_killed_process_go_and_a_live_part_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let live = PartialFile::write_lines(folder, "events-1.ndjson.gz", &["{}".to_owned()]).unwrap();
        fs::write(folder.join(".events-2.ndjson.gz.0f.part"), "half").unwrap();
        fs::write(folder.join("events-3.ndjson.gz"), "whole").unwrap();
        remove_leftovers(folder).unwrap();
        let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
        assert_eq!(names(folder), 2, "the live part and the published file");
        live.publish(&folder.join("events-1.ndjson.gz")).unwrap();
        remove_leftovers(folder).unwrap();
        assert!(folder.join("events-1.ndjson.gz").exists() && folder.join("events-3.ndjson.gz").exists());
        assert_eq!(names(folder), 2);
    }

    #[test]
    fn a_part_reaches_its_name_whoever_removes_leftovers_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let names: Vec<_> = (0..500).map(|n| format!("events-{n}.ndjson.gz")).collect();
        let publish = |name: &String| {
            PartialFile::write_lines(folder, name, &["{}".to_owned()]).unwrap().publish(&folder.join(name))
        };
        thread::scope(|scope| {
            let writer = scope.spawn(|| names.iter().try_for_each(publish));
            while !writer.is_finished() {
                remove_leftovers(folder).unwrap();
            }
            writer.join().unwrap().unwrap();
        });
        assert!(names.iter().all(|name| folder.join(name).exists()));
    }
}
