//! The folder of received mails, one `.eml` file each, with a list of them in memory. Survives a restart; bounded.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use tokio::{fs, sync::watch};

use super::mail::Summary;

/// Mails kept; the oldest make room.
const MAX_MAILS: usize = 1_000;

/// Names a mail and orders mails by arrival: milliseconds since 1970, made unique.
pub(super) type Id = u64;

/// The received messages.
pub(super) struct Mailbox {
    folder: PathBuf,
    last_id: AtomicU64,
    mails: watch::Sender<BTreeMap<Id, Summary>>,
}

impl Mailbox {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// When the folder or a mail in it cannot be read.
    pub async fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder).await?;
        let mut mails = BTreeMap::new();
        let mut entries = fs::read_dir(folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".eml")).and_then(|stem| stem.parse().ok());
            if let Some(id) = id {
                mails.insert(id, Summary::of(id, &fs::read(entry.path()).await?));
            }
        }
        let last_id = AtomicU64::new(mails.last_key_value().map_or(0, |(&id, _)| id));
        Ok(Self { folder: folder.to_owned(), last_id, mails: watch::Sender::new(mails) })
    }

    /// Keeps a mail. It is on disk under its full name, or not at all.
    ///
    /// # Errors
    /// When the file cannot be written, or an old one not removed.
    pub async fn put(&self, mail: &[u8]) -> io::Result<Id> {
        let id = self.next_id();
        let unfinished = self.folder.join(format!("{id}.part"));
        fs::write(&unfinished, mail).await?;
        fs::rename(&unfinished, self.path(id)).await?;
        let mut oldest = Vec::new();
        self.mails.send_modify(|mails| {
            mails.insert(id, Summary::of(id, mail));
            while mails.len() > MAX_MAILS {
                oldest.extend(mails.pop_first().map(|(id, _)| id));
            }
        });
        for id in oldest {
            fs::remove_file(self.path(id)).await?;
        }
        Ok(id)
    }

    /// A mail's bytes; `None` when there is no such mail.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn get(&self, id: Id) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(id)).await {
            Ok(mail) => Ok(Some(mail)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All mails, the latest first.
    pub fn list(&self) -> Vec<Summary> {
        self.mails.borrow().values().rev().cloned().collect()
    }

    /// Wakes with every mail that arrives after this call.
    pub fn arrivals(&self) -> watch::Receiver<BTreeMap<Id, Summary>> {
        self.mails.subscribe()
    }

    fn path(&self, id: Id) -> PathBuf {
        self.folder.join(format!("{id}.eml"))
    }

    fn next_id(&self) -> Id {
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        let next = |last: u64| now.max(last + 1);
        match self.last_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last))) {
            Ok(last) | Err(last) => next(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn mails_survive_a_restart_and_the_oldest_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::open(folder.path()).await.unwrap();
        let first = mailbox.put(b"Subject: 0\r\n\r\n").await.unwrap();
        for n in 1..=MAX_MAILS {
            mailbox.put(format!("Subject: {n}\r\n\r\n").as_bytes()).await.unwrap();
        }
        assert!(mailbox.get(first).await.unwrap().is_none());

        let reopened = Mailbox::open(folder.path()).await.unwrap().list();
        assert_eq!(reopened.len(), MAX_MAILS);
        assert_eq!(reopened.first().unwrap().subject, MAX_MAILS.to_string());
        assert_eq!(reopened, mailbox.list());
    }
}
