//! Names that the store has, and what hangs on them.

use std::{collections::BTreeMap, fmt};

closed_set! {
    /// What a name is the name of.
    pub enum NameKind {
        Digest = "digest",
        Tenant = "tenant",
        Category = "category",
        Relay = "relay",
        Subscription = "subscription",
    }
}

closed_set! {
    /// What may hang on a name; the name says it after a number.
    pub enum Hanging {
        /// People who unsubscribed.
        Withdrawn = "unsubscribed",
        /// People who chose something.
        Chosen = "with choices",
        /// People who turned the category off.
        Off = "who turned it off",
        /// Pauses of operators that are in force.
        Paused = "paused",
        /// Suppressed addresses.
        Suppressed = "suppressed",
        /// Digests without an end.
        Undelivered = "digests without an end",
        /// A relay that is left alone until an operator says otherwise.
        Broken = "open breaker",
        /// Notices without an end.
        Waiting = "notices that wait",
    }
}

/// A name with how many of each hang on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    pub kind: NameKind,
    pub name: String,
    pub has: BTreeMap<Hanging, u64>,
}

/// What there is, in words: `2 unsubscribed, 1 suppressed`.
impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there: Vec<_> = self.has.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&there.join(", "))
    }
}
