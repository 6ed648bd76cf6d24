//! Names in Temporal that clients, workers and other languages must agree on.

/// Workflow type of a digest.
pub const WORKFLOW_TYPE: &str = "digest";
/// Signal that carries events; see [`decode`](crate::decode).
pub const SIGNAL: &str = "events";
/// Signal without content to a digest's or a message's workflow: the recipient's preferences have changed, or a pause began or
/// ended.
pub const PREFERENCES_SIGNAL: &str = "preferences";
/// Task queue of the digest workflows, unless configured otherwise.
pub const TASK_QUEUE: &str = "tidings";
/// Workflow type of a single message.
pub const MESSAGE_WORKFLOW_TYPE: &str = "message";

/// Task queue of the messages of the stream `transactional`. It is separate, so that a flood of digests delays no message.
#[must_use]
pub fn transactional(task_queue: &str) -> String {
    format!("{task_queue}-transactional")
}

/// Task queue of the single messages of the stream `bulk`. It is separate, so that digests and single messages never wait for
/// each other.
#[must_use]
pub fn bulk(task_queue: &str) -> String {
    format!("{task_queue}-bulk")
}

/// Workflow type of retention.
pub const RETENTION_WORKFLOW_TYPE: &str = "upkeep";

/// Name of the retention schedule and of its task queue, and prefix of its workflow ids, to which Temporal appends the start
/// time. The queue is separate, so that retention uses no slot and no rate of the deliveries, and older workers ignore it.
#[must_use]
pub fn retention(task_queue: &str) -> String {
    format!("{task_queue}-upkeep")
}

/// The digests' task queue of a retention schedule. `None`: the name is no schedule's.
#[must_use]
pub fn queue_of_retention(schedule: &str) -> Option<&str> {
    schedule.strip_suffix("-upkeep").filter(|queue| !queue.is_empty())
}

/// Workflow type of a subscription's deliveries.
pub const SUBSCRIPTION_WORKFLOW_TYPE: &str = "subscription";
/// Signal without content to a subscription's workflow: a notice waits.
pub const NOTICE_SIGNAL: &str = "notice";

/// Task queue of the deliveries to subscriptions. It is separate, so that a slow receiver delays no email.
#[must_use]
pub fn subscriptions(task_queue: &str) -> String {
    format!("{task_queue}-subscriptions")
}

/// Workflow id of a subscription. It is never that of a key, which begins with `digest/` or `message/`.
#[must_use]
pub fn subscription(task_queue: &str, name: &str) -> String {
    format!("subscription/{task_queue}/{name}")
}

/// Name of the subscription that a workflow id [names](subscription). A name has no slash.
#[must_use]
pub fn subscription_name(workflow_id: &str) -> Option<&str> {
    let (_, name) = workflow_id.strip_prefix("subscription/")?.rsplit_once('/')?;
    Some(name)
}

/// Search attribute (Keyword), set at start: the key's tenant.
pub const TENANT_ATTRIBUTE: &str = "TidingsTenant";
/// Search attribute (Keyword), set at start: the key's digest type.
pub const DIGEST_TYPE_ATTRIBUTE: &str = "TidingsDigestType";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_schedule_names_its_task_queue() {
        assert_eq!(queue_of_retention(&retention("mail")), Some("mail"));
        for other in ["tidings-installation", "-upkeep", "upkeep"] {
            assert_eq!(queue_of_retention(other), None, "{other}");
        }
    }

    #[test]
    fn a_workflow_id_names_its_subscription() {
        assert_eq!(subscription_name(&subscription("tidings", "crm")), Some("crm"));
        assert_eq!(subscription_name(&subscription("eu/tidings", "crm")), Some("crm"));
        for other in ["digest/acme/activity/ann", "subscription/crm", "x"] {
            assert_eq!(subscription_name(other), None, "{other}");
        }
    }
}
