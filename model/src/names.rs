//! The names under which Temporal knows Tidings: clients, workers and other languages must agree on them.

/// Workflow type of a digest.
pub const WORKFLOW_TYPE: &str = "digest";
/// Signal that carries events; see [`Inbound`](tidings_workflows::Inbound).
pub const SIGNAL: &str = "events";
/// Signal without content: the recipient's preferences have changed.
pub const PREFERENCES_SIGNAL: &str = "preferences";
/// Task queue of the digest workflows, unless configured otherwise.
pub const TASK_QUEUE: &str = "tidings";
/// Workflow type of a single message.
pub const MESSAGE_WORKFLOW_TYPE: &str = "message";

/// Task queue of the messages of the stream `transactional`, beside the digests' one: a flood there delays nothing here.
#[must_use]
pub fn transactional(task_queue: &str) -> String {
    format!("{task_queue}-transactional")
}

/// Workflow type of the upkeep.
pub const UPKEEP_WORKFLOW_TYPE: &str = "upkeep";

/// The upkeep beside the digests' task queue: its schedule and its task queue have this name, and the ids of its workflows
/// begin with it, as the server puts the time behind. A worker of a version that has no upkeep never hears of it, and it takes no slot or rate from the deliveries.
#[must_use]
pub fn upkeep(task_queue: &str) -> String {
    format!("{task_queue}-upkeep")
}

/// Search attribute (Keyword), set at start: the key's tenant.
pub const TENANT_ATTRIBUTE: &str = "TidingsTenant";
/// Search attribute (Keyword), set at start: the key's digest type.
pub const DIGEST_TYPE_ATTRIBUTE: &str = "TidingsDigestType";
