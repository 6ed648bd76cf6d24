//! Temporal names shared by clients, workers and other languages.

pub const WORKFLOW_TYPE: &str = "digest";
/// Signal with events; see [`decode`](crate::decode).
pub const SIGNAL: &str = "events";
/// Signal without content to a digest or message workflow: the recipient's preferences changed, or a pause
/// began or ended.
pub const PREFERENCES_SIGNAL: &str = "preferences";
pub const TASK_QUEUE: &str = "tidings";
pub const MESSAGE_WORKFLOW_TYPE: &str = "message";

/// Separate, so that a flood of digests cannot delay a message.
#[must_use]
pub fn transactional_queue(task_queue: &str) -> String {
    format!("{task_queue}-transactional")
}

/// For single messages, so digests and single messages never wait for each other.
#[must_use]
pub fn bulk_queue(task_queue: &str) -> String {
    format!("{task_queue}-bulk")
}

pub const RETENTION_WORKFLOW_TYPE: &str = "upkeep";

/// Schedule, task queue and prefix of the workflow ids (Temporal appends the start time). The queue is
/// separate, so retention uses no slots or rate of the deliveries, and older workers ignore it.
#[must_use]
pub fn retention_schedule(task_queue: &str) -> String {
    format!("{task_queue}-upkeep")
}

#[must_use]
pub fn queue_of_retention(schedule: &str) -> Option<&str> {
    schedule.strip_suffix("-upkeep").filter(|queue| !queue.is_empty())
}

pub const SUBSCRIPTION_WORKFLOW_TYPE: &str = "subscription";
/// No content: a notice is queued.
pub const NOTICE_SIGNAL: &str = "notice";

/// Separate, so a slow webhook endpoint cannot delay emails.
#[must_use]
pub fn subscriptions_queue(task_queue: &str) -> String {
    format!("{task_queue}-subscriptions")
}

/// Cannot clash with a key's id, which begins with `digest/` or `message/`.
#[must_use]
pub fn subscription_workflow_id(task_queue: &str, name: &str) -> String {
    format!("subscription/{task_queue}/{name}")
}

/// From a [workflow id](subscription_workflow_id). Names contain no slash.
#[must_use]
pub fn subscription_name(workflow_id: &str) -> Option<&str> {
    let (_, name) = workflow_id.strip_prefix("subscription/")?.rsplit_once('/')?;
    Some(name)
}

/// A Keyword, set at start.
pub const TENANT_ATTRIBUTE: &str = "TidingsTenant";
/// A Keyword, set at start.
pub const DIGEST_TYPE_ATTRIBUTE: &str = "TidingsDigestType";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_schedule_names_its_task_queue() {
        assert_eq!(queue_of_retention(&retention_schedule("mail")), Some("mail"));
        for other in ["tidings-installation", "-upkeep", "upkeep"] {
            assert_eq!(queue_of_retention(other), None, "{other}");
        }
    }

    #[test]
    fn a_workflow_id_names_its_subscription() {
        assert_eq!(subscription_name(&subscription_workflow_id("tidings", "crm")), Some("crm"));
        assert_eq!(subscription_name(&subscription_workflow_id("eu/tidings", "crm")), Some("crm"));
        for other in ["digest/acme/activity/ann", "subscription/crm", "x"] {
            assert_eq!(subscription_name(other), None, "{other}");
        }
    }
}
