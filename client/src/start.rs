//! Options shared by every call that may start a workflow.

use std::time::Duration;

use temporalio_client::{RetryOptions, RpcOptions, WorkflowIdConflictPolicy, WorkflowIdReusePolicy};
use temporalio_common::search_attributes::{SearchAttributeKey, SearchAttributes};
use tidings_model::{Key, MessageKey, names, settings::StreamName};

/// A running workflow receives the signal or the update; otherwise a new run starts.
pub(crate) const CONFLICT: WorkflowIdConflictPolicy = WorkflowIdConflictPolicy::UseExisting;
pub(crate) const REUSE: WorkflowIdReusePolicy = WorkflowIdReusePolicy::AllowDuplicate;

/// Returns the search attributes of a digest workflow. Every start must set them, because operators find runs by them.
#[must_use]
pub fn search_attributes(key: &Key) -> SearchAttributes {
    SearchAttributes::new([
        SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone()),
        SearchAttributeKey::keyword(names::DIGEST_TYPE_ATTRIBUTE).value_set(key.digest_type.clone()),
    ])
}

/// Returns the search attributes of a message workflow.
#[must_use]
pub fn message_search_attributes(key: &MessageKey) -> SearchAttributes {
    SearchAttributes::new([SearchAttributeKey::keyword(names::TENANT_ATTRIBUTE).value_set(key.tenant.clone())])
}

/// Returns the task queue of a stream's messages; `task_queue` is the digests'.
#[must_use]
pub fn message_task_queue(task_queue: &str, stream: StreamName) -> String {
    match stream {
        StreamName::Transactional => names::transactional(task_queue),
        StreamName::Bulk => names::bulk(task_queue),
    }
}

/// Returns options that retry transient errors until the time is up.
pub(crate) fn rpc_options(time_left: Duration) -> RpcOptions {
    let retry = RetryOptions::builder()
        .initial_interval(Duration::from_millis(100))
        .multiplier(2.0)
        .max_interval(Duration::from_secs(1))
        .max_elapsed_time(Some(time_left))
        .max_retries(0) // No limit but the time.
        .build();
    RpcOptions::builder().timeout(time_left).retry_options(retry).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_waits_in_the_queue_of_the_digests() {
        let queues = [StreamName::Transactional, StreamName::Bulk].map(|stream| message_task_queue("tidings", stream));
        assert_eq!(queues, ["tidings-transactional", "tidings-bulk"]);
    }
}
