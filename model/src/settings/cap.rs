//! The cap of a recipient (rule 13).

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::words;

/// A limit on digests in a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cap {
    /// Number of digests, at least one.
    pub most: u32,
    /// Length of the span, which slides. Whole days are days of the calendar.
    pub within: Duration,
}

/// In the words of `tidings.toml`: `5 in 1d`.
impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.most, words::written(self.within))
    }
}
