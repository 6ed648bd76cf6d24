//! Incomplete files of the archive: complete on disk, but without their name yet.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use uuid::Uuid;

/// A new file under a temporary name. The file is deleted when dropped, and locked until then: a file without a lock is what a
/// killed process left behind.
pub(super) struct Part {
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
pub(super) fn remove_leftovers(folder: &Path) -> io::Result<()> {
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
pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

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
