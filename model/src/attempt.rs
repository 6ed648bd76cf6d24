//! The phase that an attempt to deliver a message reached, and the class of its end.

closed_set! {
    /// The phase that an attempt reached.
    pub enum Phase {
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
        /// The final dot is out, the reply is not in.
        Dot = "dot",
        /// The relay took responsibility for the message.
        Done = "done",
    }
}

closed_set! {
    /// The meaning of an attempt's end, from which the next action follows.
    pub enum AttemptClass {
        /// The relay took responsibility.
        Sent = "sent",
        /// Transient: try again by the schedule.
        Deferred = "deferred",
        /// The relay wants less mail from us: wait with all of it, count no attempt.
        Throttled = "throttled",
        /// Our credentials or settings are wrong: breaker and alert, count no attempt.
        Configuration = "configuration",
        /// The address does not exist: suppress it.
        HardBounce = "hard_bounce",
        /// Permanent now; suppress only after repeats.
        MailboxFull = "mailbox_full",
        /// The relay says in words, and not by its code, that there is no such mailbox: permanent, suppress only after repeats.
        UnknownMailbox = "unknown_mailbox",
        /// The relay refuses the recipient, and does not say why: ask once more, suppress only after repeats.
        Refused = "refused",
        /// The recipient's provider does not take the message for this recipient (5.7.x at RCPT): ask once more, never suppress.
        RecipientPolicy = "recipient_policy",
        /// The relay or the recipient's provider rejects us, not the address: breaker and alert, never suppress.
        Policy = "policy",
        /// Render smaller, once.
        TooLarge = "too_large",
        /// Permanent for this message.
        Failed = "failed",
        /// Perhaps delivered.
        Ambiguous = "ambiguous",
        /// A newer attempt exists; nothing was sent.
        Fenced = "fenced",
        /// Withdrawn before the dot; nothing was sent.
        Cancelled = "cancelled",
    }
}

impl AttemptClass {
    /// The recipient is refused, and it may be us who are meant: the message is sent once more before it fails.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::RecipientPolicy)
    }
}
