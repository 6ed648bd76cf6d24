//! SMTP outcomes proven by tests: of `classify`, over real connections, and for digests.

use tidings_model::{
    attempt::{
        AttemptClass::{
            self, Ambiguous, Configuration, Deferred, Failed, HardBounce, MailboxFull, Policy, RecipientPolicy,
            Refused, Sent, Throttled, TooLarge, UnknownMailbox,
        },
        AttemptPhase::{self, Auth, Connect, Data, Dot, Ehlo, Greeting, Mail, Rcpt, Tls},
    },
    breaker::BreakerCause,
};

use self::Follows::{Confirm, Delivered, Fail, OpenBreaker, Repeat, Retry, Shrink, Suppress};
use super::{classify::SmtpEvent, reply::SmtpReply};

/// An event in a phase, its class, and the next step.
#[derive(Clone, Copy, Debug)]
pub struct OutcomeRow {
    pub phase: AttemptPhase,
    pub event: RowEvent,
    pub class: AttemptClass,
    pub follows: Follows,
}

/// An [`SmtpEvent`] that fits in a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEvent {
    /// Without its line end.
    Reply(&'static str),
    Lost,
    Silent,
    NoTls,
    NoLogin,
    OverSize,
    NotRepresentable,
    BadSender,
}

/// The next step, for a digest in an `at_least_once` stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    Delivered,
    /// Sends the same bytes again. Five consecutive outages open the relay's breaker.
    Retry,
    /// Sends the same bytes again, although the relay may have the message.
    Repeat,
    /// The message waits, and the attempt does not count.
    OpenBreaker(BreakerCause),
    /// The digest fails and the address is suppressed.
    Suppress,
    /// The digest waits, and fails if refused again.
    Confirm,
    Fail,
    /// The digest is rendered once more with fewer lines.
    Shrink,
}

impl RowEvent {
    #[must_use]
    pub fn to_smtp_event(self) -> SmtpEvent {
        match self {
            Self::Reply(line) => {
                let (code, text) = line.split_at_checked(3).unwrap_or_default();
                SmtpEvent::Reply(SmtpReply::new(code.parse().unwrap_or_default(), text))
            }
            Self::Lost => SmtpEvent::Lost,
            Self::Silent => SmtpEvent::Silent,
            Self::NoTls => SmtpEvent::NoTls,
            Self::NoLogin => SmtpEvent::NoLogin,
            Self::OverSize => SmtpEvent::OverSize,
            Self::NotRepresentable => SmtpEvent::NotRepresentable,
            Self::BadSender => SmtpEvent::BadSender,
        }
    }
}

const fn row(phase: AttemptPhase, event: RowEvent, class: AttemptClass, follows: Follows) -> OutcomeRow {
    OutcomeRow { phase, event, class, follows }
}

const fn reply(phase: AttemptPhase, line: &'static str, class: AttemptClass, follows: Follows) -> OutcomeRow {
    row(phase, RowEvent::Reply(line), class, follows)
}

pub const OUTCOMES: [OutcomeRow; 75] = [
    reply(Dot, "250 2.0.0 queued", Sent, Delivered),
    // Cannot connect, TLS, EHLO; 421; any 4yz.
    reply(Greeting, "554 5.3.2 no service", Deferred, Retry),
    reply(Greeting, "421 4.3.2 busy", Deferred, Retry),
    reply(Tls, "502 5.5.1 no", Deferred, Retry),
    reply(Tls, "454 4.7.0 TLS not available", Deferred, Retry),
    reply(Ehlo, "550 5.7.1 go away", Deferred, Retry),
    reply(Mail, "421 4.3.2 shutting down", Deferred, Retry),
    reply(Rcpt, "421 4.3.2 shutting down", Deferred, Retry),
    reply(Rcpt, "450 4.2.0 greylisted", Deferred, Retry),
    reply(Rcpt, "450 4.2.1 The user is receiving mail at a rate that; too many messages", Deferred, Retry),
    reply(Rcpt, "452 4.2.2 mailbox full", Deferred, Retry),
    reply(Data, "451 4.3.0 try later", Deferred, Retry),
    reply(Dot, "421 4.3.2 shutting down", Deferred, Retry),
    reply(Dot, "451 4.3.0 try later", Deferred, Retry),
    reply(Dot, "451 4.7.1 greylisted", Deferred, Retry),
    // 454 to AUTH, and the replies of providers to a sender that is too fast.
    reply(Auth, "454 4.7.0 Temporary authentication failure", Throttled, OpenBreaker(BreakerCause::Throttled)),
    reply(Greeting, "421 4.7.28 unusual rate of unsolicited mail", Throttled, OpenBreaker(BreakerCause::Throttled)),
    reply(Greeting, "421 4.7.0 Too many connections from your host", Throttled, OpenBreaker(BreakerCause::Throttled)),
    reply(Mail, "432 4.3.2 Concurrent connections limit exceeded", Deferred, Retry),
    reply(
        Mail,
        "454 Throttling failure: Daily message quota exceeded.",
        Throttled,
        OpenBreaker(BreakerCause::DailyQuota),
    ),
    reply(
        Mail,
        "454 Throttling failure: Maximum sending rate exceeded.",
        Throttled,
        OpenBreaker(BreakerCause::Throttled),
    ),
    reply(Rcpt, "550 5.4.5 Daily user sending limit exceeded", Throttled, OpenBreaker(BreakerCause::DailyQuota)),
    reply(
        Rcpt,
        "550 acme.example has exceeded the max emails per hour",
        Throttled,
        OpenBreaker(BreakerCause::HourlyQuota),
    ),
    reply(Mail, "450 4.7.1 Error: too much mail from 192.0.2.1", Throttled, OpenBreaker(BreakerCause::Throttled)),
    reply(
        Dot,
        "454 Throttling failure: Maximum sending rate exceeded.",
        Throttled,
        OpenBreaker(BreakerCause::Throttled),
    ),
    // 530, 534, 535, and any other permanent reply to AUTH.
    reply(
        Mail,
        "530 5.7.0 Must issue a STARTTLS command first",
        Configuration,
        OpenBreaker(BreakerCause::Configuration),
    ),
    reply(Auth, "534 5.7.9 mechanism too weak", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Auth, "535 5.7.8 bad credentials", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Auth, "504 5.5.4 unknown mechanism", Configuration, OpenBreaker(BreakerCause::Configuration)),
    // Our sender and our host.
    reply(Mail, "550 5.1.1 who are you", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Mail, "517 Domain does not exist: acme.example.", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Mail, "553 5.1.7 bad address syntax", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Mail, "450 4.1.8 Sender address rejected", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Rcpt, "550 5.1.8 bad sender", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Rcpt, "550 5.7.1 relaying denied", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Rcpt, "550 relay not permitted", Configuration, OpenBreaker(BreakerCause::Configuration)),
    reply(Rcpt, "454 4.7.1 Relay access denied", Configuration, OpenBreaker(BreakerCause::Configuration)),
    // 550 with 5.1.1, 5.1.2, 5.1.3, 5.1.6 or 5.1.10.
    reply(Rcpt, "550 5.1.1 no such user", HardBounce, Suppress),
    reply(Rcpt, "550 5.1.2 no such host", HardBounce, Suppress),
    reply(Rcpt, "550 5.1.3 bad syntax", HardBounce, Suppress),
    reply(Rcpt, "550 5.1.6 moved", HardBounce, Suppress),
    reply(Rcpt, "550 5.1.10 null MX", HardBounce, Suppress),
    reply(Dot, "550 5.1.1 no such user", HardBounce, Suppress),
    reply(Dot, "550 5.1.10 null MX", HardBounce, Suppress),
    // 5.2.2.
    reply(Rcpt, "552 5.2.2 mailbox full", MailboxFull, Fail),
    reply(Dot, "554 5.2.2 over quota", MailboxFull, Fail),
    // 5.7.x.
    reply(Mail, "550 5.7.515 access denied", Policy, OpenBreaker(BreakerCause::Policy)),
    reply(Rcpt, "550 5.7.606 banned sending IP", Policy, OpenBreaker(BreakerCause::Policy)),
    reply(Dot, "550 5.7.26 unauthenticated", Policy, OpenBreaker(BreakerCause::Policy)),
    reply(Dot, "550 5.7.515 access denied", Policy, OpenBreaker(BreakerCause::Policy)),
    reply(Dot, "552 5.7.0 content blocked", Policy, OpenBreaker(BreakerCause::Policy)),
    // 552, 5.3.4.
    reply(Mail, "552 message too big", TooLarge, Shrink),
    reply(Dot, "552 5.3.4 too big", TooLarge, Shrink),
    reply(Dot, "554 5.3.4 message too big", TooLarge, Shrink),
    // Every other 5yz.
    // 5yz at RCPT by which perhaps we are meant.
    reply(Rcpt, "550 no such user", UnknownMailbox, Fail),
    reply(Rcpt, "550 Unrouteable address", Refused, Confirm),
    reply(Rcpt, "550 5.4.1 access denied", Refused, Confirm),
    reply(Rcpt, "550 5.7.133 sender not authenticated for group", RecipientPolicy, Confirm),
    reply(Rcpt, "550 5.7.1 rejected by policy", RecipientPolicy, Confirm),
    reply(Rcpt, "553 5.6.7 SMTPUTF8 required", Failed, Fail),
    reply(Data, "554 5.5.1 no valid recipients", Failed, Fail),
    reply(Data, "554 no valid recipients", Failed, Fail),
    reply(Dot, "554 5.6.0 no", Failed, Fail),
    // Replies to another command.
    reply(Data, "250 2.0.0 what?", Deferred, Retry),
    reply(Dot, "354 go on", Ambiguous, Repeat),
    // Events without a reply.
    row(Connect, RowEvent::Lost, Deferred, Retry),
    row(Tls, RowEvent::NoTls, Deferred, Retry),
    row(Auth, RowEvent::NoLogin, Configuration, OpenBreaker(BreakerCause::Configuration)),
    row(Mail, RowEvent::BadSender, Configuration, OpenBreaker(BreakerCause::Configuration)),
    row(Mail, RowEvent::OverSize, TooLarge, Shrink),
    row(Rcpt, RowEvent::NotRepresentable, Failed, Fail),
    row(Rcpt, RowEvent::Lost, Deferred, Retry),
    row(Rcpt, RowEvent::Silent, Deferred, Retry),
    row(Dot, RowEvent::Lost, Ambiguous, Repeat),
    row(Dot, RowEvent::Silent, Ambiguous, Repeat),
];
