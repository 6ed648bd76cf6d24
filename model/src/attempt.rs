//! How far an attempt got, and its result.

closed_set! {
    pub enum AttemptPhase {
        Connect = "connect",
        Tls = "tls",
        Greeting = "greeting",
        Ehlo = "ehlo",
        Auth = "auth",
        Mail = "mail",
        Rcpt = "rcpt",
        Data = "data",
        /// The content, up to the final dot.
        Body = "body",
        /// Sent, but there is no reply yet.
        Dot = "dot",
        Done = "done",
    }
}

closed_set! {
    /// The result of an attempt, which decides the next step.
    pub enum AttemptClass {
        Sent = "sent",
        /// Transient failure: retry with backoff.
        Deferred = "deferred",
        /// The relay throttles us: hold back all its messages, count no attempt.
        Throttled = "throttled",
        /// The relay rejects our credentials or settings: open the circuit breaker, raise an alert, and count
        /// no attempt.
        Configuration = "configuration",
        /// The address does not exist: suppress it.
        HardBounce = "hard_bounce",
        /// Permanent for now; suppress the address only after repeats.
        MailboxFull = "mailbox_full",
        /// A missing mailbox by the reply's text but not its code: permanent; suppress the address only after
        /// repeats.
        UnknownMailbox = "unknown_mailbox",
        /// The relay refused the recipient without a reason: retry once, suppress only after repeats.
        Refused = "refused",
        /// The recipient's provider rejects this message for this recipient (5.7.x at RCPT): retry once,
        /// never suppress.
        RecipientPolicy = "recipient_policy",
        /// The relay or the recipient's provider rejects us, not the address: open the circuit breaker, raise
        /// an alert, never suppress.
        Policy = "policy",
        /// The message is too large: render a smaller one, once.
        TooLarge = "too_large",
        Failed = "failed",
        /// The message may have been delivered.
        Ambiguous = "ambiguous",
        /// A newer attempt exists, so nothing was sent.
        Fenced = "fenced",
        /// Cancelled before the final dot, so nothing was sent.
        Cancelled = "cancelled",
    }
}

impl AttemptClass {
    /// Returns `true` if the refusal may be directed at us. Try the message once more before it fails.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::RecipientPolicy)
    }
}
