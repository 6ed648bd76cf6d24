//! The parts that all pages of the workshop work with.

use std::{path::Path, sync::Arc};

use tokio::sync::{Mutex, Semaphore};

use super::{changes::Files, fault::Fault, kept::Kept, templates::Templates};
use crate::Config;

/// The configuration, and what pages keep.
pub(super) struct Bench {
    pub config: Config,
    pub kept: Kept,
    /// One run of SpamAssassin at a time.
    pub spam: Semaphore,
    /// The address of the inbox, for a link.
    pub inbox: Option<String>,
    /// The templates that were read last.
    latest: Mutex<Option<Arc<Templates>>>,
}

impl Bench {
    pub fn new(config: Config, inbox: Option<String>) -> Self {
        Self { config, kept: Kept::default(), spam: Semaphore::new(1), inbox, latest: Mutex::default() }
    }

    /// The team's own templates.
    pub fn folder(&self) -> Option<&Path> {
        self.config.templates.as_deref()
    }

    /// The templates of this state of the files. They are read once for each state.
    ///
    /// # Errors
    /// A file cannot be read, or has a fault.
    pub async fn templates(&self, files: &Files) -> Result<Arc<Templates>, Fault> {
        let mut latest = self.latest.lock().await;
        if let Some(templates) = latest.as_ref().filter(|templates| templates.are_of(files)) {
            return Ok(Arc::clone(templates));
        }
        let templates = Arc::new(Templates::read(files.clone(), self.folder()).await?);
        *latest = Some(Arc::clone(&templates));
        Ok(templates)
    }
}
