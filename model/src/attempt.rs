//! The phase that an attempt to deliver a message reached, and the class of its end.

/// The phase that an attempt reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Connect,
    Tls,
    Greeting,
    Ehlo,
    Auth,
    Mail,
    Rcpt,
    Data,
    /// The content, up to the final dot.
    Body,
    /// The final dot is out, the reply is not in.
    Dot,
    /// The relay took responsibility for the message.
    Done,
}

impl Phase {
    /// The name in the ledger, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Greeting => "greeting",
            Self::Ehlo => "ehlo",
            Self::Auth => "auth",
            Self::Mail => "mail",
            Self::Rcpt => "rcpt",
            Self::Data => "data",
            Self::Body => "body",
            Self::Dot => "dot",
            Self::Done => "done",
        }
    }
}

/// The meaning of an attempt's end, from which the next action follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptClass {
    /// The relay took responsibility.
    Sent,
    /// Transient: try again by the schedule.
    Deferred,
    /// The relay wants less mail from us: wait with all of it, count no attempt.
    Throttled,
    /// Our credentials or settings are wrong: breaker and alert, count no attempt.
    Configuration,
    /// The address does not exist: suppress it.
    HardBounce,
    /// Permanent now; suppress only after repeats.
    MailboxFull,
    /// The relay or the recipient's provider rejects us, not the address: breaker and alert, never suppress.
    Policy,
    /// Render smaller, once.
    TooLarge,
    /// Permanent for this message.
    Failed,
    /// Perhaps delivered.
    Ambiguous,
    /// A newer attempt exists; nothing was sent.
    Fenced,
    /// Withdrawn before the dot; nothing was sent.
    Cancelled,
}

impl AttemptClass {
    /// The name in the ledger, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Deferred => "deferred",
            Self::Throttled => "throttled",
            Self::Configuration => "configuration",
            Self::HardBounce => "hard_bounce",
            Self::Policy => "policy",
            Self::TooLarge => "too_large",
            Self::MailboxFull => "mailbox_full",
            Self::Failed => "failed",
            Self::Ambiguous => "ambiguous",
            Self::Fenced => "fenced",
            Self::Cancelled => "cancelled",
        }
    }
}
