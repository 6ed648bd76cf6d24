//! All routes of the API.

use axum::{
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use tidings_model::api_token::TokenScope;

use super::{
    ApiState,
    events::{self, BODY_BYTES},
    jobs, ledger,
    messages::{self, BODY_BYTES as MESSAGE_BYTES},
    openapi::operation::Operation,
    operate, pauses, preferences, recipients, suppressions, watch,
};

/// Body limit in bytes for routes with a few fields or none.
const SMALL: usize = 4096;
/// Body limit in bytes for routes with short lists.
const LISTS: usize = 64 * 1024;

/// Rate limit class. Each token has a separate rate per class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateClass {
    Events,
    Reads,
    Operate,
}

/// Declares a route: method, path, required scope, rate limit class, body limit before decompression, handler
/// and `OpenAPI` description. The comment becomes the summary in `OpenAPI`.
macro_rules! endpoints {
    ($(#[doc = $summary:literal] $name:ident = $method:ident $path:literal, $scope:ident, $class:ident, $bytes:expr
        => $handler:expr, $described:expr;)+) => {
        /// The router, the `OpenAPI` document and the tests are built from [`Endpoint::ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $(#[doc = $summary] $name,)+
        }

        impl Endpoint {
            pub const ALL: [Self; [$($path),+].len()] = [$(Self::$name),+];

            /// E.g. `PostEvents`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            #[must_use]
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $summary.trim(),)+
                }
            }

            #[must_use]
            pub const fn method(self) -> Method {
                match self {
                    $(Self::$name => Method::$method,)+
                }
            }

            #[must_use]
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)+
                }
            }

            #[must_use]
            pub const fn scope(self) -> TokenScope {
                match self {
                    $(Self::$name => TokenScope::$scope,)+
                }
            }

            #[must_use]
            pub const fn class(self) -> RateClass {
                match self {
                    $(Self::$name => RateClass::$class,)+
                }
            }

            #[must_use]
            pub const fn body_bytes(self) -> usize {
                match self {
                    $(Self::$name => $bytes,)+
                }
            }

            pub(super) fn handler(self) -> MethodRouter<ApiState> {
                match self {
                    $(Self::$name => on(MethodFilter::$method, $handler),)+
                }
            }

            pub(super) fn described(self) -> Operation {
                match self {
                    $(Self::$name => $described(),)+
                }
            }
        }
    };
}

impl Endpoint {
    /// Returns the path for callers. It differs from the router's path if a user could have the same id as a
    /// command, e.g. `reopen`.
    #[must_use]
    pub const fn documented_path(self) -> &'static str {
        match self {
            Self::ReopenByKey => "/v1/digests/{key}/reopen",
            _ => self.path(),
        }
    }

    #[must_use]
    pub const fn accepts_compression(self) -> bool {
        matches!(self, Self::PostEvents | Self::PostRecipients)
    }
}

endpoints! {
    /// Emit events and retracts.
    PostEvents = POST "/v1/events", EventsWrite, Events, BODY_BYTES
        => events::post, events::operations::describe_post;
    /// Get the pending events of a key.
    GetDigest = GET "/v1/digests/{digest_type}/{user}", DigestsRead, Reads, SMALL
        => ledger::get, ledger::describe_get;
    /// List digests.
    ListDigests = GET "/v1/ledger/digests", DigestsRead, Reads, SMALL
        => ledger::list, ledger::describe_list;
    /// Get a digest with its history.
    ShowDigest = GET "/v1/ledger/digests/{id}", DigestsRead, Reads, SMALL
        => ledger::show, ledger::describe_show;
    /// List audit entries.
    ListAudit = GET "/v1/audit", AuditRead, Reads, SMALL
        => ledger::list_audit, ledger::describe_audit;
    /// List dead letters.
    ListDeadLetters = GET "/v1/dead-letters", DigestsRead, Reads, SMALL
        => ledger::dead_letters::list, ledger::dead_letters::describe_list;
    /// Get a dead letter.
    ShowDeadLetter = GET "/v1/dead-letters/{id}", DigestsRead, Reads, SMALL
        => ledger::dead_letters::show, ledger::dead_letters::describe_show;
    /// Emit a dead letter.
    EmitDeadLetter = POST "/v1/dead-letters/{id}/emit", DigestsOperate, Operate, SMALL
        => ledger::dead_letters::emit, ledger::dead_letters::describe_emit;
    /// List pauses.
    ListPauses = GET "/v1/pauses", DigestsRead, Reads, SMALL
        => pauses::list, pauses::describe_list;
    /// Start a pause.
    Pause = POST "/v1/pauses", DigestsOperate, Operate, SMALL
        => pauses::pause, pauses::describe_pause;
    /// End a pause.
    Resume = POST "/v1/pauses/{id}/resume", DigestsOperate, Operate, SMALL
        => pauses::resume, pauses::describe_resume;
    /// Send the pending events of a key now.
    FlushDigest = POST "/v1/digests/{digest_type}/{user}/flush", DigestsOperate, Operate, SMALL
        => operate::flush, operate::describe_flush;
    /// Hold a key: collect its events without sending.
    HoldDigest = POST "/v1/digests/{digest_type}/{user}/hold", DigestsOperate, Operate, SMALL
        => operate::hold, operate::describe_hold;
    /// Release a key: end its hold.
    ReleaseDigest = POST "/v1/digests/{digest_type}/{user}/release", DigestsOperate, Operate, SMALL
        => operate::release, operate::describe_release;
    /// Drop the pending events of a key.
    DropDigest = POST "/v1/digests/{digest_type}/{user}/drop", DigestsOperate, Operate, SMALL
        => operate::drop, operate::describe_drop;
    /// Change the deadline of a key's pending events.
    RetimeDigest = POST "/v1/digests/{digest_type}/{user}/retime", DigestsOperate, Operate, SMALL
        => operate::retime, operate::describe_retime;
    /// Preview the email of a key.
    PreviewDigest = POST "/v1/digests/{digest_type}/{user}/preview", DigestsOperate, Operate, SMALL
        => operate::preview, operate::describe_preview;
    /// Reopen a digest that ended without a message.
    ReopenDigest = POST "/v1/digests/{digest_type}/{user}/reopen", DigestsOperate, Operate, SMALL
        => operate::reopen, operate::describe_reopen;
    // This is the path of the status route, because a user may be called `reopen`.
    /// Reopen a digest (key as one path segment).
    ReopenByKey = POST "/v1/digests/{digest_type}/{user}", DigestsOperate, Operate, SMALL
        => operate::reopen_by_key, operate::describe_reopen;
    /// Drop pending events (key as one path segment).
    DeleteByKey = DELETE "/v1/digests/{key}", DigestsOperate, Operate, SMALL
        => operate::delete_by_key, operate::describe_delete_by_key;
    /// Start a job: a command for many keys.
    PostJob = POST "/v1/jobs", DigestsOperate, Operate, SMALL
        => jobs::post, jobs::describe_post;
    /// List jobs, latest first.
    ListJobs = GET "/v1/jobs", DigestsOperate, Reads, SMALL
        => jobs::list, jobs::describe_list;
    /// Get a job with its progress.
    GetJob = GET "/v1/jobs/{id}", DigestsOperate, Reads, SMALL
        => jobs::show, jobs::describe_show;
    /// List the keys of a job with their results.
    ListJobResults = GET "/v1/jobs/{id}/results", DigestsOperate, Reads, SMALL
        => jobs::results, jobs::describe_results;
    /// Cancel the rest of a job.
    CancelJob = DELETE "/v1/jobs/{id}", DigestsOperate, Operate, SMALL
        => jobs::cancel, jobs::describe_cancel;
    /// Count open, undelivered and overdue digests.
    GetStats = GET "/v1/stats", StatsRead, Reads, SMALL
        => watch::stats, watch::describe_stats;
    /// Get delivery statistics.
    GetReport = GET "/v1/report", StatsRead, Reads, SMALL
        => watch::report, watch::describe_report;
    /// List relays.
    ListRelays = GET "/v1/relays", StatsRead, Reads, SMALL
        => watch::relays, watch::describe_relays;
    /// Send a single message.
    PostMessage = POST "/v1/messages", MessagesWrite, Events, MESSAGE_BYTES
        => messages::post, messages::describe_post;
    /// List messages.
    ListMessages = GET "/v1/messages", MessagesRead, Reads, SMALL
        => messages::list, messages::describe_list;
    /// Get a single message with its attempts.
    GetMessage = GET "/v1/messages/{key}", MessagesRead, Reads, SMALL
        => messages::show, messages::describe_show;
    /// Cancel a single message.
    CancelMessage = POST "/v1/messages/{key}/cancel", MessagesWrite, Operate, SMALL
        => messages::cancel, messages::describe_cancel;
    /// Retry a single message.
    RetryMessage = POST "/v1/messages/{key}/retry", MessagesWrite, Operate, SMALL
        => messages::retry, messages::describe_retry;
    /// List recipients.
    ListRecipients = GET "/v1/recipients", RecipientsRead, Reads, SMALL
        => recipients::list, recipients::describe_list;
    /// Add or replace many recipients.
    PostRecipients = POST "/v1/recipients", RecipientsWrite, Events, BODY_BYTES
        => recipients::post, recipients::describe_post;
    /// Get a recipient.
    GetRecipient = GET "/v1/recipients/{user}", RecipientsRead, Reads, SMALL
        => recipients::show, recipients::describe_show;
    /// Add or replace a recipient.
    PutRecipient = PUT "/v1/recipients/{user}", RecipientsWrite, Events, SMALL
        => recipients::put, recipients::describe_put;
    /// Update a recipient.
    PatchRecipient = PATCH "/v1/recipients/{user}", RecipientsWrite, Events, SMALL
        => recipients::patch, recipients::describe_patch;
    /// Erase everything about a person.
    DeleteRecipient = DELETE "/v1/recipients/{user}", RecipientsWrite, Operate, SMALL
        => recipients::erase, recipients::describe_erase;
    /// Rename a recipient.
    RenameRecipient = POST "/v1/recipients/{user}/rename", RecipientsWrite, Operate, SMALL
        => recipients::rename, recipients::describe_rename;
    /// Merge two recipients.
    MergeRecipient = POST "/v1/recipients/{user}/merge", RecipientsWrite, Operate, SMALL
        => recipients::merge, recipients::describe_merge;
    /// Get a recipient's preferences for a digest type.
    GetPreferences = GET "/v1/recipients/{user}/preferences/{digest_type}", PreferencesRead, Reads, SMALL
        => preferences::show, preferences::describe_show;
    /// Replace a recipient's preferences for a digest type.
    PutPreferences = PUT "/v1/recipients/{user}/preferences/{digest_type}", PreferencesWrite, Events, LISTS
        => preferences::put, preferences::describe_put;
    /// Get a recipient's consent to a digest type.
    GetConsent = GET "/v1/recipients/{user}/consent/{digest_type}", PreferencesRead, Reads, SMALL
        => preferences::show_consent, preferences::describe_show_consent;
    /// Record a recipient's consent to a digest type.
    PutConsent = PUT "/v1/recipients/{user}/consent/{digest_type}", PreferencesWrite, Events, SMALL
        => preferences::put_consent, preferences::describe_put_consent;
    /// List suppressed addresses.
    ListSuppressions = GET "/v1/suppressions", SuppressionsRead, Reads, SMALL
        => suppressions::list, suppressions::describe_list;
    /// Get the suppressions of an address.
    GetSuppression = GET "/v1/suppressions/{address}", SuppressionsRead, Reads, SMALL
        => suppressions::show, suppressions::describe_show;
    /// Suppress an address.
    PutSuppression = PUT "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL
        => suppressions::put, suppressions::describe_put;
    /// Lift the suppressions of an address.
    DeleteSuppression = DELETE "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL
        => suppressions::lift, suppressions::describe_lift;
}
