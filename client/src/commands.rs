//! Commands of an operator to the workflows of digests and messages. The command line and the gateway share them.
//!
//! Each command is a workflow update with the operator's login and reason. The workflow writes both to the audit trail.

use std::{iter, time::Duration};

use temporalio_client::Client as Temporal;
use tidings_model::{
    Key, MessageKey,
    settings::{FormerNames, StreamName},
};

mod digest;
mod error;
mod message;
mod update;

pub use digest::{DigestCommands, Done};
pub use error::CommandError;
pub use message::MessageCommands;
use update::Caller;

/// The default time for an answer.
///
/// A workflow with local activities answers when its workflow task ends, at most every eight seconds. After a worker was
/// killed, Temporal first waits 25 s for that worker before another one gets the task.
const PATIENCE: Duration = Duration::from_secs(30);

/// The commands to the workflows behind one task queue. Cheap to clone.
#[derive(Clone)]
pub struct Commands(Caller);

impl Commands {
    /// Uses an existing connection; `task_queue` is the digests'.
    #[must_use]
    pub fn new(temporal: Temporal, task_queue: impl Into<String>) -> Self {
        Self(Caller { temporal, task_queue: task_queue.into(), patience: PATIENCE })
    }

    /// Waits this long for an answer instead of 30 s.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self(Caller { patience, ..self.0 })
    }

    /// Returns the commands to the workflow of a key.
    #[must_use]
    pub fn digest<'a>(&'a self, key: &'a Key) -> DigestCommands<'a> {
        DigestCommands::new(&self.0, key)
    }

    /// The name under which a key is open: its own, or else the first of its others, today's before former ones. Without an open one
    /// that of today. Temporal is asked only where there are several names.
    ///
    /// # Errors
    /// As for [`DigestCommands::flush`].
    pub async fn open_name(&self, names: &FormerNames, key: &Key) -> Result<Key, CommandError> {
        let today = names.today(key);
        let all = names.keys(key);
        if all.len() == 1 {
            return Ok(today);
        }
        let others = all.into_iter().filter(|other| other != key);
        for name in iter::once(key.clone()).chain(others) {
            if self.digest(&name).is_open().await? {
                return Ok(name);
            }
        }
        Ok(today)
    }

    /// Returns the commands to the workflow of a single message; `stream` is the message's stream.
    #[must_use]
    pub fn message(&self, key: &MessageKey, stream: StreamName) -> MessageCommands {
        MessageCommands::new(&self.0, key, stream)
    }
}
