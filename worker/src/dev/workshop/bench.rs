//! The parts that all pages of the workshop work with.

use std::{path::Path, sync::Arc};

use tidings_mail::render::Renderer;
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{fault::Fault, kept::Kept};
use crate::Config;

/// The configuration, and what pages keep.
pub(super) struct Bench {
    pub config: Config,
    pub kept: Kept,
    /// One run of SpamAssassin at a time.
    pub spam: Semaphore,
    /// The address of the inbox, for a link.
    pub inbox: Option<String>,
}

impl Bench {
    pub fn new(config: Config, inbox: Option<String>) -> Self {
        Self { config, kept: Kept::default(), spam: Semaphore::new(1), inbox }
    }

    /// The team's own templates.
    pub fn folder(&self) -> Option<&Path> {
        self.config.templates.as_deref()
    }

    /// Reads all templates. Each page does, so that it shows the files of now.
    ///
    /// # Errors
    /// A file cannot be read, or has a fault.
    pub async fn renderer(&self) -> Result<Arc<Renderer>, Fault> {
        let folder = self.folder().map(Path::to_owned);
        let read = spawn_blocking(move || {
            let folder = folder.as_deref();
            Renderer::new(folder).map_err(|error| Fault::of_templates(&error, folder))
        });
        read.await.map_err(|error| Fault::new("Tidings", error, "Please report that."))?.map(Arc::new)
    }
}
