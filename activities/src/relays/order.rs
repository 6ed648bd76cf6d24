//! What an operator tells a relay's breaker.

use jiff::Timestamp;
use tidings_model::{breaker::Breaker, records::AuditEntry};
use tidings_store::Store;

use super::change;

/// Leave it alone, or use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No mail goes by it until somebody closes it.
    Open,
    /// Mail goes by it at once, and what was counted counts no more.
    Close,
}

impl Order {
    /// The word in the audit trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "relay_open",
            Self::Close => "relay_close",
        }
    }

    /// Carries it out, with an audit entry. Workers see it within a second, and waiting messages within five minutes.
    ///
    /// # Errors
    /// The store cannot answer, or workers change the relay so often that it cannot be changed.
    pub async fn carry_out(
        self,
        store: &dyn Store,
        relay: &str,
        by: &str,
        why: &str,
        now: Timestamp,
    ) -> Result<Breaker, tidings_store::Error> {
        let action = self.name().to_owned();
        let entry = AuditEntry { at: now, actor: by.to_owned(), action, why: why.to_owned() };
        let next = |breaker: &Breaker| match self {
            Self::Open => Some(breaker.opened(why, now)),
            Self::Close => Some(Breaker::closed()),
        };
        let changed = change(store, relay, Some(&entry), now, next).await?;
        changed.ok_or_else(|| tidings_store::Error::Broken(format!("relay {relay} changes all the time; try again")))
    }
}
