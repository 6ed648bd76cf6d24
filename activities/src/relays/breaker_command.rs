//! The operator's commands for the breaker of a relay.

use jiff::Timestamp;
use tidings_model::{RelaysToday, breaker::Breaker, records::AuditEntry};
use tidings_store::Store;

use super::change::change;

/// A command that opens or closes a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerCommand {
    /// Sends nothing by the relay until an operator closes the breaker.
    Open,
    /// Uses the relay at once and resets the counts.
    Close,
}

impl BreakerCommand {
    /// The word in the audit trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "relay_open",
            Self::Close => "relay_close",
        }
    }

    /// Carries out the command for the breaker `name`, with an audit entry. Workers notice within a second, and waiting messages within five minutes.
    ///
    /// # Errors
    /// The store cannot answer, or workers change the relay so often that it cannot be changed.
    pub async fn carry_out(
        self,
        store: &dyn Store,
        name: &str,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Breaker, tidings_store::Error> {
        let action = self.name().to_owned();
        let entry = AuditEntry { at: now, actor: by.to_owned().into(), action, why: why.to_owned() };
        let next = |breaker: &Breaker| match self {
            Self::Open => Some(breaker.opened(why, now)),
            Self::Close => Some(Breaker::closed()),
        };
        // Whatever the breaker was before, under whatever name.
        let changed = change(store, &RelaysToday::default(), name, Some(&entry), now, next).await?;
        changed.ok_or_else(|| tidings_store::Error::Broken(format!("breaker {name} is changed too often; try again")))
    }
}
