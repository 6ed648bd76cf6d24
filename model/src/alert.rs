//! The alerts that operators watch for in the log, as the field `alert`.

closed_set! {
    /// The name of a log entry that operators page on. `docs/operations.md` tells what each alert means.
    pub enum Alert {
        /// A digest ended as failed or ambiguous.
        DigestFailed = "digest_failed",
        /// A single message ended as failed or ambiguous.
        MessageFailed = "message_failed",
        /// The ledger refuses to record the end of an attempt.
        LedgerRefuses = "ledger_refuses",
        /// One attempt of an activity failed.
        ActivityFailed = "activity_failed",
        /// A digest type that no table of a worker has.
        UnknownDigestType = "unknown_digest_type",
        /// A recipient has a zone that no zone data knows.
        UnknownZone = "unknown_zone",
        /// A relay's breaker opened.
        RelayOpen = "relay_open",
        /// A relay's breaker closed again.
        RelayClosed = "relay_closed",
        /// A template is missing or broken, and `default` was used.
        TemplateFallback = "template_fallback",
        /// Events could not be decoded.
        DeadLetters = "dead_letters",
        /// A signal of an unknown name could not be made a dead letter.
        MisnamedSignal = "misnamed_signal",
        /// A producer started a digest with a timeout, a retry policy or a cron schedule.
        StartOptions = "start_options",
        /// The subscription of a webhook has ended.
        WebhookEnded = "webhook_ended",
        /// Notices to a subscription were not delivered within 24 hours.
        NoticesUndelivered = "notices_undelivered",
        /// The receiver of a subscription answered 410.
        SubscriptionEnded = "subscription_ended",
        /// Notices wait for a subscription that no file has.
        SubscriptionRemoved = "subscription_removed",
        /// The archive cannot be written.
        ArchiveFailed = "archive_failed",
        /// The nightly upkeep has no schedule.
        UpkeepUnscheduled = "upkeep_unscheduled",
        /// Processes of one installation have other settings, keys, clocks or databases.
        ProcessesDiffer = "processes_differ",
        /// A run that no person ended was recovered.
        RunRecovered = "run_recovered",
        /// A run ended without its code, and an operator decides about it.
        RunLeft = "run_left",
    }
}
