//! Checks the namespace and the version of Temporal's server before a worker starts.

use anyhow::bail;
use temporalio_client::{
    Client, NamespacedClient as _,
    grpc::WorkflowService,
    tonic::{Code, IntoRequest as _},
};
use temporalio_common::protos::temporal::api::workflowservice::v1::{DescribeNamespaceRequest, GetSystemInfoRequest};

use crate::config::no_namespace;

/// Major and minor version. This is the first to report the backlog of task queues.
const OLDEST: (u32, u32) = (1, 28);

/// Warns if the server is too old for Tidings.
///
/// # Errors
/// See [`server_version`].
pub async fn check_server(client: &Client) -> anyhow::Result<()> {
    let version = server_version(client).await?;
    if let Some(effect) = old_server(&version) {
        tracing::warn!(version, "Temporal's server is {effect}");
    }
    Ok(())
}

/// Empty if the server does not report it.
///
/// # Errors
/// The namespace does not exist. We report this here because the SDK's error has no remedy.
pub async fn server_version(client: &Client) -> anyhow::Result<String> {
    let namespace = client.namespace();
    let request = DescribeNamespaceRequest { namespace: namespace.clone(), ..Default::default() }.into_request();
    let described = WorkflowService::describe_namespace(&mut client.clone(), request).await;
    if described.is_err_and(|status| status.code() == Code::NotFound) {
        bail!(no_namespace(&namespace));
    }
    let request = GetSystemInfoRequest::default().into_request();
    let info = WorkflowService::get_system_info(&mut client.clone(), request).await;
    Ok(info.map(|info| info.into_inner().server_version).unwrap_or_default())
}

/// What we lose with an old server.
pub(crate) fn old_server(version: &str) -> Option<&'static str> {
    is_old(version).then_some(
        "older than 1.28: it does not report what waits in task queues, so `tidings stats` and the gauges do not see windows that \
         wait for a worker",
    )
}

fn is_old(version: &str) -> bool {
    let mut parts = version.trim_start_matches('v').split('.').map_while(|part| part.parse().ok());
    matches!((parts.next(), parts.next()), (Some(major), Some(minor)) if (major, minor) < OLDEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, old) in [
            ("1.27.4", true),
            ("v1.9.0", true),
            ("1.28.0", false),
            ("1.28.0-rc.1", false),
            ("1.32.0", false),
            ("2.0", false),
            ("", false),
            ("main", false),
        ] {
            assert_eq!(is_old(version), old, "{version}");
        }
    }
}
