//! What Temporal reports about a task queue.

use serde::Serialize;

/// The tasks of one kind that wait in a task queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TaskQueue))]
pub struct Queue {
    pub name: String,
    pub kind: TaskKind,
    /// The approximate number of tasks that wait. `None`: the server does not report it; version 1.28 is the first that does.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub backlog: Option<u64>,
    /// The approximate age of the oldest one. `None` as above.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub backlog_seconds: Option<f64>,
    /// The workers that polled the queue in the last minutes.
    pub pollers: u64,
}

/// The kind of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum TaskKind {
    Workflow,
    Activity,
}

impl TaskKind {
    /// The name in JSON and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Activity => "activity",
        }
    }
}
