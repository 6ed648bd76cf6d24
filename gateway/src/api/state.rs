//! The adapters and settings that the routes of the api work with.

use crate::{State, inbox::Inbox};

/// The dependencies of the routes.
#[derive(Clone)]
pub struct Api {
    pub state: State,
    /// The digests' task queue.
    pub task_queue: String,
    pub inbox: Inbox,
}
