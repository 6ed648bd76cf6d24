//! Every route of the api.

use axum::http::Method;
use tidings_model::api_token::Scope;

use super::{events::BODY_BYTES, messages::BODY_BYTES as MESSAGE_BYTES};

/// The longest body of a request that has a few fields or none.
const SMALL: usize = 4096;
/// The longest body of a request with a few short lists.
const LISTS: usize = 64 * 1024;

/// The classes of routes. A token has a rate for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Events, messages and recipients that come in.
    Events,
    /// Questions.
    Reads,
    /// Commands of operators.
    Operate,
}

/// Declares the routes: method, path with its parameters in braces, scope that a token must have, class, and the longest body as it
/// comes in. The comment is the summary in the `OpenAPI` document.
macro_rules! endpoints {
    ($(#[doc = $summary:literal] $name:ident = $method:ident $path:literal, $scope:ident, $class:ident, $bytes:expr;)+) => {
        /// A route. The router and the `OpenAPI` document are made from [`Endpoint::ALL`], and the tests walk it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $(#[doc = $summary] $name,)+
        }

        impl Endpoint {
            pub const ALL: [Self; [$($path),+].len()] = [$(Self::$name),+];

            /// The name, for example `PostEvents`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }

            /// The effect in a sentence.
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
            pub const fn scope(self) -> Scope {
                match self {
                    $(Self::$name => Scope::$scope,)+
                }
            }

            #[must_use]
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$name => Class::$class,)+
                }
            }

            #[must_use]
            pub const fn body_bytes(self) -> usize {
                match self {
                    $(Self::$name => $bytes,)+
                }
            }
        }
    };
}

impl Endpoint {
    /// The path that callers write. It differs from that of the router where a user may have the name of a command.
    #[must_use]
    pub const fn documented_path(self) -> &'static str {
        match self {
            Self::ReopenByKey => "/v1/digests/{key}/reopen",
            _ => self.path(),
        }
    }

    /// Reports that the body may be compressed.
    #[must_use]
    pub const fn decodes(self) -> bool {
        matches!(self, Self::PostEvents | Self::PostRecipients)
    }
}

endpoints! {
    /// Accepts events and retracts.
    PostEvents = POST "/v1/events", EventsWrite, Events, BODY_BYTES;
    /// Says what is pending for a key.
    GetDigest = GET "/v1/digests/{type}/{user}", DigestsRead, Reads, SMALL;
    /// Lists the ledger's digests.
    ListDigests = GET "/v1/digests", DigestsRead, Reads, SMALL;
    /// Tells the story of a digest.
    ShowDigest = GET "/v1/ledger/digests/{id}", DigestsRead, Reads, SMALL;
    /// Lists the audit trail.
    ListAudit = GET "/v1/audit", AuditRead, Reads, SMALL;
    /// Lists dead letters.
    ListDeadLetters = GET "/v1/dead-letters", DigestsRead, Reads, SMALL;
    /// Shows a dead letter.
    ShowDeadLetter = GET "/v1/dead-letters/{id}", DigestsRead, Reads, SMALL;
    /// Emits a dead letter.
    EmitDeadLetter = POST "/v1/dead-letters/{id}/emit", DigestsOperate, Operate, SMALL;
    /// Lists pauses.
    ListPauses = GET "/v1/pauses", DigestsRead, Reads, SMALL;
    /// Starts a pause.
    Pause = POST "/v1/pauses", DigestsOperate, Operate, SMALL;
    /// Ends a pause.
    Resume = POST "/v1/pauses/{id}/resume", DigestsOperate, Operate, SMALL;
    /// Sends the pending events of a key now.
    FlushDigest = POST "/v1/digests/{type}/{user}/flush", DigestsOperate, Operate, SMALL;
    /// Collects the events of a key, and sends nothing.
    HoldDigest = POST "/v1/digests/{type}/{user}/hold", DigestsOperate, Operate, SMALL;
    /// Ends a hold.
    ReleaseDigest = POST "/v1/digests/{type}/{user}/release", DigestsOperate, Operate, SMALL;
    /// Drops the pending events of a key.
    DropDigest = POST "/v1/digests/{type}/{user}/drop", DigestsOperate, Operate, SMALL;
    /// Gives the pending events of a key another deadline.
    RetimeDigest = POST "/v1/digests/{type}/{user}/retime", DigestsOperate, Operate, SMALL;
    /// Shows the message of a key as it would go out now.
    PreviewDigest = POST "/v1/digests/{type}/{user}/preview", DigestsOperate, Operate, SMALL;
    /// Sends a digest of a key that ended without a message.
    ReopenDigest = POST "/v1/digests/{type}/{user}/reopen", DigestsOperate, Operate, SMALL;
    // The path is that of a status, so that a user may be called `reopen`.
    /// Sends a digest of a key, in one part of the path, that ended without a message.
    ReopenByKey = POST "/v1/digests/{type}/{user}", DigestsOperate, Operate, SMALL;
    /// Drops the pending events of a key that is one part of the path.
    DeleteByKey = DELETE "/v1/digests/{key}", DigestsOperate, Operate, SMALL;
    /// Starts a job: an order to many keys.
    PostJob = POST "/v1/jobs", DigestsOperate, Operate, SMALL;
    /// Lists jobs, the latest first.
    ListJobs = GET "/v1/jobs", DigestsOperate, Reads, SMALL;
    /// Shows how far a job is.
    GetJob = GET "/v1/jobs/{id}", DigestsOperate, Reads, SMALL;
    /// Lists the keys of a job with their results.
    ListJobResults = GET "/v1/jobs/{id}/results", DigestsOperate, Reads, SMALL;
    /// Cancels what is left of a job.
    CancelJob = DELETE "/v1/jobs/{id}", DigestsOperate, Operate, SMALL;
    /// Counts open, undelivered and overdue digests.
    GetStats = GET "/v1/stats", StatsRead, Reads, SMALL;
    /// Says what became of messages.
    GetReport = GET "/v1/report", StatsRead, Reads, SMALL;
    /// Lists the relays.
    ListRelays = GET "/v1/relays", StatsRead, Reads, SMALL;
    /// Accepts a single message.
    PostMessage = POST "/v1/messages", MessagesWrite, Events, MESSAGE_BYTES;
    /// Lists messages.
    ListMessages = GET "/v1/messages", MessagesRead, Reads, SMALL;
    /// Shows a single message with its attempts.
    GetMessage = GET "/v1/messages/{key}", MessagesRead, Reads, SMALL;
    /// Stops sending a single message.
    CancelMessage = POST "/v1/messages/{key}/cancel", MessagesWrite, Operate, SMALL;
    /// Sends a single message again.
    RetryMessage = POST "/v1/messages/{key}/retry", MessagesWrite, Operate, SMALL;
    /// Lists the directory.
    ListRecipients = GET "/v1/recipients", RecipientsRead, Reads, SMALL;
    /// Adds or replaces many recipients.
    PostRecipients = POST "/v1/recipients", RecipientsWrite, Events, BODY_BYTES;
    /// Shows a recipient.
    GetRecipient = GET "/v1/recipients/{user}", RecipientsRead, Reads, SMALL;
    /// Adds or replaces a recipient.
    PutRecipient = PUT "/v1/recipients/{user}", RecipientsWrite, Events, SMALL;
    /// Changes a recipient.
    PatchRecipient = PATCH "/v1/recipients/{user}", RecipientsWrite, Events, SMALL;
    /// Erases everything about a person.
    DeleteRecipient = DELETE "/v1/recipients/{user}", RecipientsWrite, Operate, SMALL;
    /// Gives a recipient another id.
    RenameRecipient = POST "/v1/recipients/{user}/rename", RecipientsWrite, Operate, SMALL;
    /// Makes one recipient of two.
    MergeRecipient = POST "/v1/recipients/{user}/merge", RecipientsWrite, Operate, SMALL;
    /// Shows what a recipient chose for a digest type.
    GetPreferences = GET "/v1/recipients/{user}/preferences/{type}", PreferencesRead, Reads, SMALL;
    /// Replaces what a recipient chose for a digest type.
    PutPreferences = PUT "/v1/recipients/{user}/preferences/{type}", PreferencesWrite, Events, LISTS;
    /// Shows if a recipient wants a digest type.
    GetConsent = GET "/v1/recipients/{user}/consent/{type}", PreferencesRead, Reads, SMALL;
    /// Records if a recipient wants a digest type.
    PutConsent = PUT "/v1/recipients/{user}/consent/{type}", PreferencesWrite, Events, SMALL;
    /// Lists suppressed addresses.
    ListSuppressions = GET "/v1/suppressions", SuppressionsRead, Reads, SMALL;
    /// Says why an address is suppressed.
    GetSuppression = GET "/v1/suppressions/{address}", SuppressionsRead, Reads, SMALL;
    /// Suppresses an address.
    PutSuppression = PUT "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL;
    /// Lifts the suppressions of an address.
    DeleteSuppression = DELETE "/v1/suppressions/{address}", SuppressionsWrite, Events, SMALL;
}
