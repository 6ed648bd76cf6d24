//! The window that a step is about.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Key;

/// The identity of a window, and of the digest that the window becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The key whose events the window collects.
    pub key: Key,
    /// Id of the digest; see [`Key::digest_id`].
    pub digest_id: Uuid,
    /// Arrival of the first event, by the server's clock.
    pub opened_at: Timestamp,
    /// Time when the window is due. Admission may defer it.
    pub due_at: Timestamp,
}
