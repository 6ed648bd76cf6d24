//! The templates as they were read last. A page and the message in its frame ask for them one after the other, and again with
//! each choice.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use tidings_mail::render::Renderer;
use tokio::{sync::Mutex, task::spawn_blocking};

use super::{changes::Files, fault::Fault, found::Found};

/// The templates of one state of the files.
pub(super) struct Templates {
    pub renderer: Arc<Renderer>,
    files: Files,
    folder: Option<PathBuf>,
    /// The findings about the templates that were checked.
    found: Mutex<BTreeMap<String, Arc<Found>>>,
}

impl Templates {
    /// Reads all templates. `files` is the state of the folder.
    ///
    /// # Errors
    /// A file cannot be read, or has a fault.
    pub async fn read(files: Files, folder: Option<&Path>) -> Result<Self, Fault> {
        let folder = folder.map(Path::to_owned);
        let own = folder.clone();
        let read = spawn_blocking(move || {
            let own = own.as_deref();
            Renderer::new(own).map_err(|error| Fault::of_templates(&error, own))
        });
        let renderer = read.await.map_err(|error| Fault::new("Tidings", error, "Please report that."))??;
        Ok(Self { renderer: Arc::new(renderer), files, folder, found: Mutex::default() })
    }

    /// Reports if the files are as they were read.
    pub fn are_of(&self, files: &Files) -> bool {
        self.files == *files
    }

    /// The findings about one template, which is checked once. `None`: the check failed.
    pub async fn found(&self, name: &str) -> Option<Arc<Found>> {
        let mut found = self.found.lock().await;
        if let Some(known) = found.get(name) {
            return Some(Arc::clone(known));
        }
        let (renderer, folder, of) = (Arc::clone(&self.renderer), self.folder.clone(), name.to_owned());
        let about = spawn_blocking(move || Arc::new(Found::about(&renderer, &of, folder.as_deref()))).await.ok()?;
        // An address may have any name.
        if self.renderer.names().iter().any(|known| known == name) {
            found.insert(name.to_owned(), Arc::clone(&about));
        }
        Some(about)
    }
}
