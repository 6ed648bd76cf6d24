//! Questions to the workflow of a key.

use std::time::Duration;

use anyhow::Context as _;
use temporalio_client::{QueryRejectCondition, WorkflowQueryOptions, errors::WorkflowQueryError};
use temporalio_common::{HasWorkflowDefinition, QueryDefinition};
use tidings_activities::namespace;
use tidings_model::Key;
use tidings_workflows::Digest;
use tokio::time::timeout;

use crate::Config;

/// How long a worker may take to answer. A workflow that is busy with local activities answers when its workflow task ends,
/// every eight seconds; one that a killed worker had in memory, when its task has waited for that worker
/// ([`crate::worker::registration::STICKY`]).
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the key's workflow answers; `None`: none runs.
pub(crate) async fn query<Q>(config: &Config, key: &Key, query: Q) -> anyhow::Result<Option<Q::Output>>
where
    Q: QueryDefinition<Workflow = <Digest as HasWorkflowDefinition>::Run, Input = ()>,
{
    let only_open = WorkflowQueryOptions::builder().reject_condition(QueryRejectCondition::NotOpen).build();
    let workflow = config.temporal.connect().await?.get_workflow_handle::<Digest>(key.workflow_id());
    let answer = timeout(PATIENCE, workflow.query(query, (), only_open)).await;
    match answer.with_context(|| unanswered(config, key))? {
        Ok(answer) => Ok(Some(answer)),
        Err(WorkflowQueryError::NotFound(refusal)) => Ok(namespace::is_there(&refusal).map(|()| None)?),
        Err(WorkflowQueryError::Rejected { .. }) => Ok(None),
        Err(error) => Err(error).with_context(|| unanswered(config, key)),
    }
}

fn unanswered(config: &Config, key: &Key) -> String {
    format!("{key} does not answer; is a worker running on task queue {:?}?", config.task_queue)
}

/// A command that nobody answered in time waits at Temporal, and the next worker may carry it out.
pub(crate) fn heard_later(config: &Config, key: &Key) -> String {
    format!("{}; it may obey yet, see tidings status {key}", unanswered(config, key))
}
