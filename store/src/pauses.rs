use async_trait::async_trait;
use jiff::Timestamp;
use tidings_model::{
    pause::{Pause, Paused, Scope},
    records::AuditEntry,
};

use crate::Result;

/// Operators' pauses of tenants and digest types. [`Facts`](tidings_model::records::Facts) has the pause of a key.
#[async_trait]
pub trait Pauses: Send + Sync + 'static {
    /// Pauses a scope and returns the pause in force. A scope has at most one: another command replaces its terms and keeps its
    /// id. Equal terms change nothing. A change is audited.
    async fn pause(&self, scope: &Scope, messages: bool, paused: &Paused) -> Result<Pause>;

    /// Ends the pause of exactly this scope, under whichever of its names, and returns the ended pause. `None`: no such pause is in force, and nothing changes.
    /// The end is audited.
    async fn resume(&self, scope: &Scope, entry: &AuditEntry) -> Result<Option<Pause>>;

    /// Lists the pauses in force, or with `all` also those that have ended; the latest first.
    async fn pauses(&self, all: bool, now: Timestamp) -> Result<Vec<Pause>>;

    /// The pause that covers the tenant's single messages and lasts longest. Its time may be over.
    async fn pause_of_messages(&self, tenant: &str) -> Result<Option<Paused>>;
}
