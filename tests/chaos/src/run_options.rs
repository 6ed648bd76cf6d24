//! Options that `./dev chaos` and `./dev upgrade` share.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::store::Target;

/// Store and folder of a run.
#[derive(Args)]
pub struct RunOptions {
    #[arg(long, default_value = "sqlite")]
    store: Store,
    /// Folder for the run's files [default: a new temporary folder]
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
}

impl RunOptions {
    /// Opens the folder, which is kept, and the store, for the command `./dev NAME`.
    ///
    /// # Errors
    /// When the folder cannot be made, or PostgreSQL is missing.
    pub async fn open(self, name: &str) -> Result<(PathBuf, Target)> {
        let folder = match self.folder {
            Some(folder) => fs::create_dir_all(&folder).map(|()| folder)?,
            None => tempfile::Builder::new().prefix(&format!("tidings-{name}-")).tempdir()?.keep(),
        };
        let target = match self.store {
            Store::Sqlite => Target::sqlite(&folder),
            Store::Postgres => {
                Target::postgres().await.with_context(|| format!("type ./dev {name}, which starts PostgreSQL"))?
            }
        };
        Ok((folder, target))
    }
}
