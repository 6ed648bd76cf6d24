//! The messages of a Maildir. A message is moved after its reports are recorded, and a report is recorded once, so that two
//! readers and a crash do no harm.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

use anyhow::Context as _;
use tidings_mail::bounce;

use super::{Counts, Reader};

/// Takes each message in `new`, and moves it to `cur` as seen, or deletes it.
pub(super) async fn read(folder: &Path, delete: bool, reader: &Reader<'_>, counts: &mut Counts) -> anyhow::Result<()> {
    let new = folder.join("new");
    let entries = fs::read_dir(&new).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.with_context(|| format!("{} cannot be listed; name a Maildir", new.display()))?;
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let path = new.join(&name);
        let failed = || format!("{} cannot be read or moved", path.display());
        let Some(bytes) = unless_gone(start(&path)).with_context(failed)? else { continue };
        counts.add(&reader.take(bounce::read(&bytes)).await?);
        let mut seen = name;
        seen.push(":2,S");
        let away = if delete { fs::remove_file(&path) } else { fs::rename(&path, folder.join("cur").join(seen)) };
        unless_gone(away).with_context(failed)?;
    }
    Ok(())
}

fn start(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bounce::MESSAGE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `None` if another reader has moved the message.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
