//! Events that failed digests returned to their key (rule 25), in the answers of steps.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Events that wait for the key's next claim, as the ledger has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// Time of the first return.
    pub at: Timestamp,
    /// The number of events by the digest that returned them.
    pub digests: BTreeMap<Uuid, u64>,
}

impl Returned {
    /// The number of all events.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.digests.values().sum()
    }
}
