//! The store of a run, which the run can take away and give back.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, Executor as _, PgConnection, SqliteConnection};
use tidings_harness::{env::sqlite_file, postgres, process::signal, wait::eventually};
use tidings_store::{Store, StoreBackend};

/// Time limit for PostgreSQL's start after a crash.
const READY: Duration = Duration::from_mins(1);

/// SQLite's code for a lock that another connection holds.
const BUSY: &str = "5";

/// The store of a run.
pub enum Target {
    /// A file. It is away while another process holds its write lock.
    Sqlite { file: PathBuf, lock: Option<SqliteConnection> },
    /// A database in a cluster of its own. It is away while all processes of the cluster are dead or paused.
    Postgres { url: String, cluster: PathBuf },
}

impl Target {
    /// An SQLite file in this folder.
    #[must_use]
    pub fn sqlite(folder: &Path) -> Self {
        Self::Sqlite { file: sqlite_file(folder), lock: None }
    }

    /// A new database in the cluster that `./dev` made for this run.
    ///
    /// # Errors
    /// When there is no such cluster, or the cluster does not answer.
    pub async fn postgres() -> Result<Self> {
        let url = postgres::database_in("TIDINGS_CHAOS_DATABASE_URL").await?;
        let cluster = env::var_os("TIDINGS_CHAOS_CLUSTER").context("TIDINGS_CHAOS_CLUSTER is not set")?;
        Ok(Self::Postgres { url, cluster: cluster.into() })
    }

    /// The URL for `tidings.toml`, and for the checker if the store is not a file.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite { file, .. } => format!("sqlite://{}", file.display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// The ledger as the checker reads it.
    #[must_use]
    pub fn ledger(&self) -> String {
        match self {
            Self::Sqlite { file, .. } => file.display().to_string(),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// Kills all of PostgreSQL (SIGKILL) or takes SQLite's write lock. Answers `true` if a process was killed.
    ///
    /// # Errors
    /// When PostgreSQL is away already, or the file is missing.
    pub async fn kill(&mut self) -> Result<bool> {
        match self {
            Self::Sqlite { .. } => self.pause().await.map(|()| false),
            Self::Postgres { cluster, .. } => {
                for pid in processes(cluster)? {
                    // A child may end by itself when its parent is gone.
                    let _ = signal(pid, "KILL");
                }
                Ok(true)
            }
        }
    }

    /// Starts PostgreSQL again, or gives the lock back.
    ///
    /// # Errors
    /// When PostgreSQL does not start.
    pub async fn start(&mut self) -> Result<()> {
        let Self::Postgres { cluster, .. } = self else { return self.go_on().await };
        let control = cluster.join("start");
        eventually("PostgreSQL starts", READY, async || {
            // PostgreSQL refuses to start while a child of the dead server still holds the shared memory.
            Ok(Command::new(&control).output()?.status.success().then_some(()))
        })
        .await
    }

    /// Pauses all of PostgreSQL (SIGSTOP), or takes SQLite's write lock.
    ///
    /// # Errors
    /// When PostgreSQL is away already, or the file is missing.
    pub async fn pause(&mut self) -> Result<()> {
        match self {
            Self::Sqlite { file, lock } => {
                let url = format!("sqlite://{}", file.display());
                let mut connection = SqliteConnection::connect(&url).await?;
                match sqlx::raw_sql("PRAGMA busy_timeout = 10000; BEGIN EXCLUSIVE").execute(&mut connection).await {
                    Ok(_) => *lock = Some(connection),
                    // A paused worker holds the lock, so the store is away already until that worker resumes.
                    Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(BUSY) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Self::Postgres { cluster, .. } => {
                for pid in processes(cluster)? {
                    let _ = signal(pid, "STOP");
                }
            }
        }
        Ok(())
    }

    /// Resumes what was paused.
    ///
    /// # Errors
    /// When a process is gone.
    pub async fn go_on(&mut self) -> Result<()> {
        match self {
            Self::Sqlite { lock, .. } => {
                let Some(mut connection) = lock.take() else { return Ok(()) };
                sqlx::raw_sql("ROLLBACK").execute(&mut connection).await?;
                connection.close().await?;
            }
            Self::Postgres { cluster, .. } => {
                for pid in processes(cluster)? {
                    let _ = signal(pid, "CONT");
                }
            }
        }
        Ok(())
    }

    /// Lets the ledger refuse to record the ends of attempts.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn refuse(&self) -> Result<()> {
        let statement = match self {
            Self::Sqlite { .. } => {
                "CREATE TRIGGER IF NOT EXISTS refuses BEFORE UPDATE ON attempts BEGIN SELECT RAISE(ABORT, 'refused'); END"
            }
            Self::Postgres { .. } => {
                "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
                 CREATE OR REPLACE TRIGGER refuses BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION refuse()"
            }
        };
        self.execute(statement).await
    }

    /// Lets the ledger record them again.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn accept(&self) -> Result<()> {
        self.execute(match self {
            Self::Sqlite { .. } => "DROP TRIGGER IF EXISTS refuses",
            Self::Postgres { .. } => "DROP TRIGGER IF EXISTS refuses ON attempts",
        })
        .await
    }

    /// A process that is paused may hold a lock, until it goes on.
    async fn execute(&self, statement: &'static str) -> Result<()> {
        eventually("the database takes the statement", READY, async || {
            let executed = match self {
                Self::Sqlite { file, .. } => {
                    let mut connection = SqliteConnection::connect(&format!("sqlite://{}", file.display())).await?;
                    connection.execute(sqlx::raw_sql(statement)).await.map(drop)
                }
                Self::Postgres { url, .. } => {
                    let mut connection = PgConnection::connect(url).await?;
                    connection.execute(sqlx::raw_sql(statement)).await.map(drop)
                }
            };
            Ok(executed.ok())
        })
        .await
    }

    /// A place to open the store when it is needed.
    #[must_use]
    pub fn place(&self) -> Place {
        Place(self.url())
    }
}

/// The store as Tidings opens it, to draw the subject of an intervention.
#[derive(Clone)]
pub struct Place(String);

impl Place {
    /// Connects.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(StoreBackend::connect(&self.0).await?.checked_store().await?)
    }
}

/// The postmaster and its children. The postmaster comes first, because a paused postmaster starts no children.
fn processes(cluster: &Path) -> Result<Vec<u32>> {
    let file = fs::read_to_string(cluster.join("data/postmaster.pid")).context("PostgreSQL does not run")?;
    let postmaster: u32 = file.lines().next().context("postmaster.pid is empty")?.trim().parse()?;
    let children = Command::new("pgrep").args(["-P", &postmaster.to_string()]).output().context("pgrep")?;
    let children = String::from_utf8(children.stdout)?;
    ensure!(!children.is_empty(), "PostgreSQL does not run");
    let children = children.lines().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    Ok([postmaster].into_iter().chain(children).collect())
}
