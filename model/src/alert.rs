//! Alerts for operators, in the log's field `alert`.

closed_set! {
    /// The name of a log entry that should page an operator. `docs/operations.md` explains each one.
    pub enum AlertName {
        /// A digest ended as failed or ambiguous.
        DigestFailed = "digest_failed",
        MessageFailed = "message_failed",
        LedgerRefuses = "ledger_refuses",
        ActivityFailed = "activity_failed",
        UnknownDigestType = "unknown_digest_type",
        UnknownZone = "unknown_zone",
        RelayOpen = "relay_open",
        RelayClosed = "relay_closed",
        /// A template is missing or broken, so `default` was used.
        TemplateFallback = "template_fallback",
        DeadLetters = "dead_letters",
        /// A signal with an unknown name could not be stored as a dead letter.
        MisnamedSignal = "misnamed_signal",
        /// A producer started a digest with a timeout, a retry policy or a cron schedule.
        StartOptions = "start_options",
        WebhookEnded = "webhook_ended",
        NoticesUndelivered = "notices_undelivered",
        /// The subscription's webhook endpoint returned HTTP 410.
        SubscriptionEnded = "subscription_ended",
        /// Notices are queued for a subscription which is in no configuration file any more.
        SubscriptionRemoved = "subscription_removed",
        ArchiveFailed = "archive_failed",
        UpkeepUnscheduled = "upkeep_unscheduled",
        /// Processes of one installation have different settings, keys, clocks or databases.
        ProcessesDiffer = "processes_differ",
        /// A workflow run ended unexpectedly (no person ended it) and was recovered.
        RunRecovered = "run_recovered",
        /// A workflow run ended before its code was done; an operator should decide what to do.
        RunLeft = "run_left",
    }
}
