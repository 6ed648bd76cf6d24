//! Caches the templates and detects changed files, so an open page can reload. A page and its frame request
//! the same templates one after the other.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tidings_mail::render::TemplateRenderer;
use tokio::{
    sync::Mutex,
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::fault::{TemplateFindings, WorkshopFault};

pub(super) struct LoadedTemplates {
    pub renderer: Arc<TemplateRenderer>,
    files: FolderState,
    folder: Option<PathBuf>,
    found: Mutex<BTreeMap<String, Arc<TemplateFindings>>>,
}

impl LoadedTemplates {
    /// `files` should be the folder's state before this call.
    ///
    /// # Errors
    /// A file cannot be read, or has a fault.
    pub async fn read_files(files: FolderState, folder: Option<&Path>) -> Result<Self, WorkshopFault> {
        let folder = folder.map(Path::to_owned);
        let own = folder.clone();
        let read = spawn_blocking(move || {
            let own = own.as_deref();
            TemplateRenderer::new(own).map_err(|error| WorkshopFault::of_templates(&error, own))
        });
        let renderer = read.await.map_err(|error| WorkshopFault::new("Tidings", error, "Please report that."))??;
        Ok(Self { renderer: Arc::new(renderer), files, folder, found: Mutex::default() })
    }

    pub fn are_of(&self, files: &FolderState) -> bool {
        self.files == *files
    }

    pub async fn findings_for(&self, name: &str) -> Option<Arc<TemplateFindings>> {
        let mut found = self.found.lock().await;
        if let Some(known) = found.get(name) {
            return Some(Arc::clone(known));
        }
        let (renderer, folder, of) = (Arc::clone(&self.renderer), self.folder.clone(), name.to_owned());
        let about = spawn_blocking(move || Arc::new(TemplateFindings::for_template(&renderer, &of, folder.as_deref())))
            .await
            .ok()?;
        // The URL may contain any name, so only cache known ones.
        if self.renderer.names().iter().any(|known| known == name) {
            found.insert(name.to_owned(), Arc::clone(&about));
        }
        Some(about)
    }
}

/// Limit for a long poll. Browsers give up after some minutes.
const WAIT: Duration = Duration::from_secs(25);
const EACH: Duration = Duration::from_millis(200);
const DEPTH: usize = 4;

/// Changes with the name, size or time of any file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderState(String);

impl FolderState {
    /// Hashes a folder. Skips anything unreadable, and is constant without a folder.
    pub fn of_folder(folder: Option<&Path>) -> Self {
        let mut hasher = DefaultHasher::new();
        if let Some(folder) = folder {
            hash_folder(&mut hasher, folder, DEPTH);
        }
        Self(format!("{:016x}", hasher.finish()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn hash_folder(hasher: &mut DefaultHasher, folder: &Path, depth: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(about) = fs::metadata(&path) else { continue };
        path.hash(hasher);
        if about.is_dir() && depth > 0 {
            hash_folder(hasher, &path, depth - 1);
        } else {
            about.len().hash(hasher);
            about.modified().ok().hash(hasher);
        }
    }
}

/// Waits until the folder's state differs from `seen`. Returns `false` if nothing changed in 25 seconds.
pub(super) async fn wait_for_change(folder: Option<PathBuf>, seen: &str) -> bool {
    let change = async {
        loop {
            let folder = folder.clone();
            if let Ok(now) = spawn_blocking(move || FolderState::of_folder(folder.as_deref())).await
                && now.as_str() != seen
            {
                return;
            }
            sleep(EACH).await;
        }
    };
    timeout(WAIT, change).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_added_or_removed_file_changes_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let words = folder.path().join("words/acme");
        fs::create_dir_all(&words).unwrap();
        let now = || FolderState::of_folder(Some(folder.path()));
        let mut seen = vec![now()];
        assert_eq!(now(), seen[0]);
        fs::write(words.join("de.ftl"), "a = b\n").unwrap();
        seen.push(now());
        fs::write(words.join("de.ftl"), "a = bc\n").unwrap();
        seen.push(now());
        fs::rename(words.join("de.ftl"), words.join("fr.ftl")).unwrap();
        seen.push(now());
        fs::remove_file(words.join("fr.ftl")).unwrap();
        seen.push(now());
        assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "{seen:?}");
        assert_eq!(FolderState::of_folder(None), FolderState::of_folder(Some(&folder.path().join("nothing"))));
    }
}
