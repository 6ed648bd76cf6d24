//! The file that the connections have open, and the check that it is still the one at its path.
//!
//! SQLite goes on with a file that was renamed or removed: what is written there is lost for everybody who opens the path. A backup that
//! was put in its place would so lose a click that was answered with success.

use std::{
    fs::metadata,
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use tidings_model::process::FileId;

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    id: FileId,
    is_reported: AtomicBool,
}

impl OpenFile {
    /// The file at this path, which the caller has open. `None`: there is none, as for a database in memory.
    pub fn at(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), id: id_of(path)?, is_reported: AtomicBool::new(false) })
    }

    pub const fn id(&self) -> FileId {
        self.id
    }

    /// Checks that the path still leads to this file. One system call, of a microsecond, so that each call of the store can have it.
    pub fn check(&self) -> io::Result<()> {
        if id_of(&self.path) == Some(self.id) {
            self.is_reported.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let replaced = format!(
            "the database file {} was replaced or removed while it was open, and nothing is written any more: put the file back, or stop \
             all workers and gateways before you start them on the other one",
            self.path.display()
        );
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!("{replaced}");
        }
        Err(io::Error::other(replaced))
    }
}

/// Containers may see a device under another number, but a process sees one number.
fn id_of(path: &Path) -> Option<FileId> {
    let file = metadata(path).ok()?;
    Some(FileId { device: file.dev(), inode: file.ino() })
}
