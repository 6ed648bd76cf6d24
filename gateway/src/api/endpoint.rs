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

            /// Returns the variant's name, e.g. `PostEvents`.
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
    /// Accepts events and retracts.
    PostEvents = POST "/v1/events", EventsWrite, Events, BODY_BYTES
        => events::post, events::operations::describe_post;
    /// Says what is pending for a key.
    GetDigest = GET "/v1/digests/{type}/{user}", DigestsRead, Reads, SMALL
        => ledger::get, ledger::describe_get;
    /// Lists the ledger's digests.
    ListDigests = GET "/v1/ledger/digests", DigestsRead, Reads, SMALL
        => ledger::list, ledger::describe_list;
    /// Tells the story of a digest.
    ShowDigest = GET "/v1/ledger/digests/{id}", DigestsRead, Reads, SMALL
        => ledger::show, ledger::describe_show;
    /// Lists the audit trail.
    ListAudit = GET "/v1/audit", AuditRead, Reads, SMALL
        => ledger::list_audit, ledger::describe_audit;
    /// Lists dead letters.
    ListDeadLetters = GET "/v1/dead-letters", DigestsRead, Reads, SMALL
        => ledger::dead_letters::list, ledger::dead_letters::describe_list;
    /// Shows a dead letter.
    ShowDeadLetter = GET "/v1/dead-letters/{id}", DigestsRead, Reads, SMALL
        => ledger::dead_letters::show, ledger::dead_letters::describe_show;
    /// Emits a dead letter.
    EmitDeadLetter = POST "/v1/dead-letters/{id}/emit", DigestsOperate, Operate, SMALL
        => ledger::dead_letters::emit, ledger::dead_letters::describe_emit;
    /// Lists pauses.
    ListPauses = GET "/v1/pauses", DigestsRead, Reads, SMALL
        => pauses::list, pauses::describe_list;
    /// Starts a pause.
    Pause = POST "/v1/pauses", DigestsOperate, Operate, SMALL
        => pauses::pause, pauses::describe_pause;
    /// Ends a pause.
    Resume = POST "/v1/pauses/{id}/resume", DigestsOperate, Operate, SMALL
        => pauses::resume, pauses::describe_resume;
    /// Sends the pending events of a key now.
    FlushDigest = POST "/v1/digests/{type}/{user}/flush", DigestsOperate, Operate, SMALL
        => operate::flush, operate::describe_flush;
    /// Collects the events of a key, and sends nothing.
    HoldDigest = POST "/v1/digests/{type}/{user}/hold", DigestsOperate, Operate, SMALL
        => operate::hold, operate::describe_hold;
    /// Ends a hold.
    ReleaseDigest = POST "/v1/digests/{type}/{user}/release", DigestsOperate, Operate, SMALL
        => operate::release, operate::describe_release;
    /// Drops the pending events of a key.
    DropDigest = POST "/v1/digests/{type}/{user}/drop", DigestsOperate, Operate, SMALL
        => operate::drop, operate::describe_drop;
    /// Gives the pending events of a key another deadline.
    RetimeDigest = POST "/v1/digests/{type}/{user}/retime", DigestsOperate, Operate, SMALL
        => operate::retime, operate::describe_retime;
    /// Shows the message of a key as it would go out now.
    PreviewDigest = POST "/v1/digests/{type}/{user}/preview", DigestsOperate, Operate, SMALL
        => operate::preview, operate::describe_preview;
    /// Sends a digest of a key that ended without a message.
    ReopenDigest = POST "/v1/digests/{type}/{user}/reopen", DigestsOperate, Operate, SMALL
        => operate::reopen, operate::describe_reopen;
    // This is the path of the status route, because a user may be called `reopen`.
    /// Sends a digest of a key, in one part of the path, that ended without a message.
    ReopenByKey = POST "/v1/digests/{type}/{user}", DigestsOperate, Operate, SMALL
        => operate::reopen_by_key, operate::describe_reopen;
    /// Drops the pending events of a key that is one part of the path.
    DeleteByKey = DELETE "/v1/digests/{key}", DigestsOperate, Operate, SMALL
        => operate::delete_by_key, operate::describe_delete_by_key;
    /// Starts a job: an order to many keys.
    PostJob = POST "/v1/jobs", DigestsOperate, Operate, SMALL
        => jobs::post, jobs::describe_post;
    /// Lists jobs, the latest first.
    ListJobs = GET "/v1/jobs", DigestsOperate, Reads, SMALL
        => jobs::list, jobs::describe_list;
    /// Shows how far a job is.
    GetJob = GET "/v1/jobs/{id}", DigestsOperate, Reads, SMALL
        => jobs::show, jobs::describe_show;
    /// Lists the keys of a job with their results.
    ListJobResults = GET "/v1/jobs/{id}/results", DigestsOperate, Reads, SMALL
        => jobs::results, jobs::describe_results;
    /// Cancels what is left of a job.
    CancelJob = DELETE "/v1/jobs/{id}", DigestsOperate, Operate, SMALL
        => jobs::cancel, jobs::describe_cancel;
    /// Counts open, undelivered and overdue digests.
    GetStats = GET "/v1/stats", StatsRead, Reads, SMALL
        => watch::stats, watch::describe_stats;
    /// Says what became of messages.
    GetReport = GET "/v1/report", StatsRead, Reads, SMALL
        => watch::report, watch::describe_report;
    /// Lists the relays.
    ListRelays = GET "/v1/relays", StatsRead, Reads, SMALL
        => watch::relays, watch::describe_relays;
    /// Accepts a single message.
    PostMessage = POST "/v1/messages", MessagesWrite, Events, MESSAGE_BYTES
        => messages::post, messages::describe_post;
    /// Lists messages.
    ListMessages = GET "/v1/messages", MessagesRead, Reads, SMALL
        => messages::list, messages::describe_list;
    /// Shows a single message with its attempts.
    GetMessage = GET "/v1/messages/{key}", MessagesRead, Reads, SMALL
        => messages::show, messages::describe_show;
    /// Stops sending a single message.
    CancelMessage = POST "/v1/messages/{key}/cancel", MessagesWrite, Operate, SMALL
        => messages::cancel, messages::describe_cancel;
    /// Sends a single message again.
    RetryMessage = POST "/v1/messages/{key}/retry", MessagesWrite, Operate, SMALL
        => messages::retry, messages::describe_retry;
    /// Lists the directory.
    ListRecipients = GET "/v1/recipients", RecipientsRead, Reads, SMALL
        => recipients::list, recipients::describe_list;
    /// Adds or replaces many recipients.
    PostRecipients = POST "/v1/recipients", RecipientsWrite, Events, BODY_BYTES
        => recipients::post, recipients::describe_post;
    /// Shows a recipient.
    GetRecipient = GET "/v1/recipients/{user}", RecipientsRead, Reads, SMALL
        => recipients::show, recipients::describe_show;
    /// Adds or replaces a recipient.
    PutRecipient = PUT "/v1/recipients/{user}", RecipientsWrite, Events, SMALL
        => recipients::put, recipients::describe_put;
    /// Changes a recipient.
    PatchRecipient = PATCH "/v1/recipients/{user}", RecipientsWrite, Events, SMALL
        => recipients::patch, recipients::describe_patch;
    /// Erases everything about a person.
    DeleteRecipient = DELETE "/v1/recipients/{user}", RecipientsWrite, Operate, SMALL
        => recipients::erase, recipients::describe_erase;
    /// Gives a recipient another id.
    RenameRecipient = POST "/v1/recipients/{user}/rename", RecipientsWrite, Operate, SMALL
        => recipients::rename, recipients::describe_rename;
    /// Makes one recipient of two.
    MergeRecipient = POST "/v1/recipients/{user}/merge", RecipientsWrite, Operate, SMALL
        => recipients::merge, recipients::describe_merge;
    /// Shows what a recipient chose for a digest type.
    GetPreferences = GET "/v1/recipients/{user}/preferences/{type}", PreferencesRead, Reads, SMALL
        => preferences::show, preferences::describe_show;
    /// Replaces what a recipient chose for a digest type.
    PutPreferences = PUT "/v1/recipients/{user}/preferences/{type}", PreferencesWrite, Events, LISTS
        => preferences::put, preferences::describe_put;
    /// Shows if a recipient wants a digest type.
    GetConsent = GET "/v1/recipients/{user}/consent/{type}", PreferencesRead, Reads, SMALL
        => preferences::show_consent, preferences::describe_show_consent;
    /// Records if a recipient wants a digest type.
    PutConsent = PUT "/v1/recipients/{user}/consent/{type}", PreferencesWrite, Events, SMALL
        => preferences::put_consent, preferences::describe_put_consent;
    /// Lists suppressed addresses.
    ListSuppressions = GET "/v1/suppressions", SuppressionsRead, Reads, SMALL
        => suppressions::list, suppressions::describe_list;
    /// Says why an address is suppressed.
    GetSuppression = GET "/v1/suppressions/{address}", SuppressionsRead, Reads, SMALL
        => suppressions::show, suppressions::describe_show;
    /// Suppresses an address.
    PutSuppression = PUT "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL
        => suppressions::put, suppressions::describe_put;
    /// Lifts the suppressions of an address.
    DeleteSuppression = DELETE "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL
        => suppressions::lift, suppressions::describe_lift;
}
