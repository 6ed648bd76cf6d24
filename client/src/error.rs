//! Client errors, each with a remedy.

use temporalio_client::tonic::{Code, Status};
use tidings_model::{limits::InvalidField, names};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// Violates the contract and was not accepted.
    #[error("invalid: {0}")]
    Invalid(#[from] InvalidField),
    #[error("request rejected: {0}")]
    Rejected(BatchRejection),
    /// There was no response within the deadline. It may have arrived; sending it again is safe.
    #[error("no acknowledgement in time ({0}); send again")]
    Unavailable(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchRejection {
    /// The open run has reached the signal limit (10,000) until it continues as new.
    #[error("the digest's run has reached its signal limit; a worker must be running to roll it over, then send again")]
    RunFull,
    /// The open run exceeded a server limit (50 MiB of history by default) and was terminated.
    #[error(
        "the digest's run was terminated with pending events ({0}); send again to start a new run, and run `tidings \
         recover` for the old one's events"
    )]
    Terminated(String),
    /// A server limit is below our batch size (256 KiB).
    #[error("the batch exceeds a size limit of the server ({0}); raise limit.blobSize.error or send smaller events")]
    TooLarge(String),
    #[error(
        "the namespace lacks the search attributes {tenant} and {digest}; run `tidings migrate` ({0})",
        tenant = names::TENANT_ATTRIBUTE,
        digest = names::DIGEST_TYPE_ATTRIBUTE
    )]
    SearchAttributes(String),
    #[error(
        "{}; check TEMPORAL_NAMESPACE, or create it: `temporal operator namespace create -n NAME --retention 72h`",
        .0.trim_end_matches('.')
    )]
    Namespace(String),
    #[error("{0}; check TEMPORAL_API_KEY and TEMPORAL_TLS_*; their role needs `write` on the namespace")]
    Denied(String),
    #[error("the gateway rejected the token ({0}); create one with `tidings tokens create --scope events:write`")]
    Token(String),
    /// The whole request was rejected, or the server is not a gateway.
    #[error("{0}; check the URL of the gateway's API, and its version")]
    Gateway(String),
    /// The server is too old for the call, or it is disabled by configuration.
    #[error("{0}; Tidings needs Temporal 1.28 or later, and no dynamic setting of the cluster may disable this call")]
    SwitchedOff(String),
    #[error("{0}")]
    Other(String),
}

impl EmitError {
    /// Returns `true` if a retry may succeed.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Rejected(BatchRejection::RunFull | BatchRejection::Terminated(_)))
    }
}

/// Accepts a "not found" if it means the workflow or schedule.
///
/// Temporal uses the same code for a missing namespace; only the message differs.
///
/// # Errors
/// If the namespace does not exist.
pub fn check_namespace(not_found: &Status) -> Result<(), EmitError> {
    if not_found.message().starts_with("Namespace ") { Err(EmitError::from(not_found)) } else { Ok(()) }
}

/// No other code interprets a gRPC status.
impl From<&Status> for EmitError {
    fn from(status: &Status) -> Self {
        let said = status.message().to_owned();
        let has = |words: &[&str]| words.iter().any(|word| said.to_lowercase().contains(word));
        match status.code() {
            Code::InvalidArgument if has(&["search attribute"]) => {
                Self::Rejected(BatchRejection::SearchAttributes(said))
            }
            Code::InvalidArgument if has(&["limit for signal", "signals"]) => Self::Rejected(BatchRejection::RunFull),
            Code::InvalidArgument if has(&["history size exceeds", "history count exceeds", "state size exceeds"]) => {
                Self::Rejected(BatchRejection::Terminated(said))
            }
            Code::InvalidArgument | Code::ResourceExhausted if has(&["blob", "size limit", "larger than max"]) => {
                Self::Rejected(BatchRejection::TooLarge(said))
            }
            Code::NotFound => Self::Rejected(BatchRejection::Namespace(said)),
            Code::PermissionDenied if has(&["api is disabled"]) => Self::Rejected(BatchRejection::SwitchedOff(said)),
            Code::PermissionDenied | Code::Unauthenticated => Self::Rejected(BatchRejection::Denied(said)),
            Code::Unimplemented => Self::Rejected(BatchRejection::SwitchedOff(said)),
            Code::InvalidArgument | Code::FailedPrecondition | Code::AlreadyExists => {
                Self::Rejected(BatchRejection::Other(said))
            }
            code => Self::Unavailable(format!("{code:?}: {said}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_to_try_again() {
        for (code, message, retryable, tells) in [
            (Code::Unavailable, "connection refused", true, "connection refused"),
            (Code::DeadlineExceeded, "context deadline exceeded", true, "send again"),
            (Code::ResourceExhausted, "namespace rate limit exceeded", true, "rate limit"),
            (Code::InvalidArgument, "exceeded workflow execution limit for signal events", true, "worker must be"),
            (Code::InvalidArgument, "Workflow history size exceeds limit.", true, "tidings recover"),
            (Code::InvalidArgument, "Workflow history count exceeds limit.", true, "tidings recover"),
            (Code::InvalidArgument, "Workflow mutable state size exceeds limit.", true, "tidings recover"),
            (Code::InvalidArgument, "Blob data size exceeds limit.", false, "blobSize"),
            (Code::ResourceExhausted, "grpc: received message larger than max (5 vs. 4)", false, "smaller"),
            (
                Code::InvalidArgument,
                "Namespace default has no mapping defined for search attribute X",
                false,
                "migrate",
            ),
            (Code::NotFound, "Namespace acme is not found.", false, "TEMPORAL_NAMESPACE"),
            (Code::PermissionDenied, "Request unauthorized.", false, "TEMPORAL_API_KEY"),
            (
                Code::PermissionDenied,
                "ExecuteMultiOperation API is disabled on this namespace.",
                false,
                "dynamic setting",
            ),
            (Code::Unimplemented, "unknown method PollWorkflowExecutionUpdate", false, "1.28"),
            (Code::InvalidArgument, "TaskQueue is not set", false, "TaskQueue"),
        ] {
            let error = EmitError::from(&Status::new(code, message));
            assert_eq!(error.is_retryable(), retryable, "{error}");
            assert!(error.to_string().contains(tells), "{error}");
        }
    }
}
