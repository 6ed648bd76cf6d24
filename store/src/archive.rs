//! The archive: rows as gzipped NDJSON before they are deleted, one file a batch, one folder a day.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use tidings_model::{hex, retention::Kind};
use uuid::Uuid;

mod forget;

pub use forget::{LinesAbout, Whose};

/// A folder that exists already: one that upkeep made could be the place where a disk is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    folder: PathBuf,
}

/// The archive takes nothing now.
#[derive(Debug, thiserror::Error)]
#[error(
    "the archive cannot be written, and nothing is deleted: {}: {why}; make room or mend it, or retention.archive",
    path.display()
)]
pub struct Error {
    path: PathBuf,
    why: io::Error,
}

/// Rows that are going to be deleted.
pub struct Batch {
    pub kind: Kind,
    /// The instant from which the age of the first row counts.
    pub since: Timestamp,
    /// JSON objects, the oldest first.
    pub lines: Vec<String>,
}

/// The first and the last file of an archive, by their names below its folder. Empty: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub first: String,
    pub last: String,
}

/// A complete file on disk under a temporary name. It is deleted when dropped.
pub struct Prepared {
    part: Part,
    file: PathBuf,
    /// Below the archive's folder.
    name: String,
}

impl Archive {
    /// An archive in `folder`. Nothing is looked at before it is written to.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of the archive.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The absolute path, under which the store remembers the archive.
    #[must_use]
    pub fn name(&self) -> String {
        let absolute = std::path::absolute(&self.folder);
        absolute.unwrap_or_else(|_| self.folder.clone()).to_string_lossy().into_owned()
    }

    /// Reports that the folder exists, on this machine.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.folder.is_dir()
    }

    /// Reports that this is the folder with the file, and not the empty place where its disk is to be mounted. The file itself may be
    /// gone with the last of its lines, while its day stays.
    #[must_use]
    pub fn holds(&self, file: &str) -> bool {
        self.is_there() && Path::new(file).parent().is_none_or(|day| self.folder.join(day).is_dir())
    }

    /// Writes the batch down. Its file is named after its first row: where a crash came between publishing and deleting,
    /// the next batch begins with the same row, and takes the place of the file.
    ///
    /// # Errors
    /// The folder is missing or not ours, or the disk is full.
    pub async fn prepare(&self, batch: Batch) -> Result<Prepared, Error> {
        let folder = self.folder.clone();
        blocking(self.folder.clone(), move || write(&folder, &batch)).await
    }
}

impl Prepared {
    /// The file, as the only one of its archive.
    #[must_use]
    pub fn written(&self) -> Written {
        Written { first: self.name.clone(), last: self.name.clone() }
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// The disk fails.
    pub async fn publish(self) -> Result<(), Error> {
        blocking(self.file.clone(), move || self.part.publish(&self.file)).await
    }
}

async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other);
    done.flatten().map_err(|why| Error { path, why })
}

fn write(archive: &Path, Batch { kind, since, lines }: &Batch) -> io::Result<Prepared> {
    let day = since.strftime("%Y-%m-%d").to_string();
    let folder = archive.join(&day);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => sync(archive)?,
    }
    let hash = digest(&SHA256, lines.first().map_or("", String::as_str).as_bytes());
    let hash = hex(&hash.as_ref()[..8]);
    let name = format!("{}-{}-{hash}.ndjson.gz", kind.name(), since.strftime("%H%M%S"));
    // A batch that a kill interrupted is made again with the same first row, and so in the same folder.
    remove_leftovers(&folder)?;
    let part = Part::write(&folder, &name, lines)?;
    Ok(Prepared { part, file: folder.join(&name), name: format!("{day}/{name}") })
}

/// A new file under a temporary name. The file is deleted when dropped, and locked until then: a file without a lock is what a
/// killed process left behind.
struct Part {
    path: PathBuf,
    _locked: File,
}

impl Part {
    /// Writes the lines to a new file that is on disk when this returns. Addresses and bodies are in the lines.
    pub fn write(folder: &Path, name: &str, lines: &[String]) -> io::Result<Self> {
        let (path, file) = create(folder, name)?;
        let part = Self { path, _locked: file.try_clone()? };
        pack(file, lines)?;
        Ok(part)
    }

    /// Gives the file its name, in the place of a file that has the name already.
    pub fn publish(self, file: &Path) -> io::Result<()> {
        fs::rename(&self.path, file)?;
        file.parent().map_or(Ok(()), sync)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // A published file is not there any more.
        fs::remove_file(&self.path).ok();
    }
}

/// Creates a file and locks it. Before the lock, another process may delete the file as a leftover: then there is another file.
fn create(folder: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    loop {
        let path = folder.join(format!(".{name}.{}.part", Uuid::new_v4().simple()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        // Where the file system has no locks, what a killed process leaves there stays.
        file.lock().ok();
        if fs::exists(&path)? {
            return Ok((path, file));
        }
    }
}

fn pack(file: File, lines: &[String]) -> io::Result<()> {
    let mut encoder = GzEncoder::new(io::BufWriter::new(file), Compression::default());
    for line in lines {
        encoder.write_all(line.as_bytes())?;
        encoder.write_all(b"\n")?;
    }
    encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Deletes the incomplete files of killed processes. A file that is being written is locked, and stays.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with('.') || path.extension() != Some("part".as_ref()) {
            continue;
        }
        match remove_unlocked(&path) {
            // It has got its name, or is deleted.
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

/// Puts the names in a folder on disk.
fn sync(folder: &Path) -> io::Result<()> {
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

    fn batch(lines: &[&str]) -> Batch {
        let since = "2026-08-23T03:30:00Z".parse().unwrap();
        Batch { kind: Kind::Events, since, lines: lines.iter().map(|&line| line.to_owned()).collect() }
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
            archive.prepare(batch(lines)).await.unwrap().publish().await.unwrap();
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
        drop(Archive::new(folder.path().to_owned()).prepare(batch(&["{}"])).await.unwrap());
        assert_eq!(files(&folder.path().join("2026-08-23")), Vec::<PathBuf>::new());
    }

    #[tokio::test]
    async fn a_missing_folder_is_reported_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().join("not/mounted"));
        let error = archive.prepare(batch(&["{}"])).await.err().unwrap().to_string();
        assert!(error.contains("not/mounted") && error.contains("nothing is deleted"), "{error}");
        assert!(error.contains("retention.archive"), "{error}");
    }
    #[test]
    fn leftovers_of_a_killed_process_go_and_a_live_part_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let live = Part::write(folder, "events-1.ndjson.gz", &["{}".to_owned()]).unwrap();
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
        let publish =
            |name: &String| Part::write(folder, name, &["{}".to_owned()]).unwrap().publish(&folder.join(name));
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
