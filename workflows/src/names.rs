//! The names under which Temporal knows Tidings: clients, workers and other languages must agree on them.

/// Workflow type of a digest.
pub const WORKFLOW_TYPE: &str = "digest";
/// Signal that carries events; see [`Inbound`](crate::Inbound).
pub const SIGNAL: &str = "events";
/// Signal without content: the recipient's preferences have changed.
pub const PREFERENCES_SIGNAL: &str = "preferences";
/// Task queue of the digest workflows, unless configured otherwise.
pub const TASK_QUEUE: &str = "tidings";
/// Search attribute (Keyword), set at start: the key's tenant.
pub const TENANT_ATTRIBUTE: &str = "TidingsTenant";
/// Search attribute (Keyword), set at start: the key's digest type.
pub const DIGEST_TYPE_ATTRIBUTE: &str = "TidingsDigestType";
