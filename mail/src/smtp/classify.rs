//! The class of an attempt, decided from its last event. No other code looks at reply codes.

use tidings_model::{
    attempt::{AttemptClass, Phase},
    replies::names_unknown_mailbox,
};

use super::reply::Reply;

mod table;
#[cfg(test)]
mod tests;

pub use table::{Follows, OUTCOMES, OutcomeRow, RowEvent};

/// The event that ends an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpEvent {
    Reply(Reply),
    /// There was no connection, the connection broke, or the bytes received are not an SMTP reply.
    Lost,
    /// The relay did not reply within the time of the phase.
    Silent,
    /// TLS is required and not available, or the certificate is not trusted.
    NoTls,
    /// The relay offers neither AUTH PLAIN nor AUTH LOGIN.
    NoLogin,
    /// The relay announced a limit (RFC 1870) that the message exceeds.
    OverSize,
    /// SMTP as this relay speaks it cannot carry the address or the message.
    NotRepresentable,
    /// The sender address is invalid.
    BadSender,
}

/// Returns the class of an attempt that `event` ended in `phase`.
#[must_use]
pub fn classify(phase: Phase, event: &SmtpEvent) -> AttemptClass {
    match event {
        SmtpEvent::Reply(reply) => classify_reply(phase, reply),
        SmtpEvent::Lost | SmtpEvent::Silent if phase == Phase::Dot => AttemptClass::Ambiguous,
        SmtpEvent::Lost | SmtpEvent::Silent | SmtpEvent::NoTls => AttemptClass::Deferred,
        SmtpEvent::NoLogin | SmtpEvent::BadSender => AttemptClass::Configuration,
        SmtpEvent::OverSize => AttemptClass::TooLarge,
        SmtpEvent::NotRepresentable => AttemptClass::Failed,
    }
}

fn classify_reply(phase: Phase, reply: &Reply) -> AttemptClass {
    match (reply.code, phase) {
        (200..=299, Phase::Dot | Phase::Done) => AttemptClass::Sent,
        // A reply to another command: the two sides are out of step.
        (..=399, Phase::Dot) => AttemptClass::Ambiguous,
        (454, Phase::Auth) => AttemptClass::Throttled,
        (400..=499, _) if is_throttling(reply) => AttemptClass::Throttled,
        // No reply before EHLO can concern a message.
        (..=499, _) | (_, Phase::Connect | Phase::Tls | Phase::Greeting | Phase::Ehlo) => AttemptClass::Deferred,
        (530 | 534 | 535, _) | (_, Phase::Auth) => AttemptClass::Configuration,
        _ => classify_rejection(phase, reply),
    }
}

/// Classifies a permanent reply (5yz) to MAIL, RCPT, DATA or the content.
fn classify_rejection(phase: Phase, reply: &Reply) -> AttemptClass {
    let (subject, detail) = reply.enhanced.map_or((0, 0), |(_, subject, detail)| (subject, detail));
    match (reply.code, subject, detail) {
        // The relay learns the recipient's address from RCPT. An earlier reply cannot concern the recipient.
        (550, 1, 1 | 2 | 3 | 6 | 10) if phase > Phase::Mail => AttemptClass::HardBounce,
        (_, 2, 2) => AttemptClass::MailboxFull,
        (_, 7, _) => AttemptClass::Policy,
        (552, ..) | (_, 3, 4) => AttemptClass::TooLarge,
        _ if is_throttling(reply) => AttemptClass::Throttled,
        // No code says why.
        (550, 0, 0) if phase == Phase::Rcpt && names_unknown_mailbox(&reply.text) => AttemptClass::UnknownMailbox,
        (550, 0, 0) if phase == Phase::Rcpt => AttemptClass::Refused,
        _ => AttemptClass::Failed,
    }
}

/// Recognises the replies of providers to a sender that is too fast. SES replies "Maximum sending rate exceeded" or "Daily
/// message quota exceeded", Gmail "unusual rate" or "sending limit exceeded", Outlook "throttled", Postfix "too many
/// connections". A reply about an address (x.1.y) or a mailbox (x.2.y) never throttles the sender.
fn is_throttling(reply: &Reply) -> bool {
    const PHRASES: &[&str] = &[
        "throttl",
        "rate limit",
        "ratelimit",
        "rate exceeded",
        "unusual rate",
        "sending rate",
        "sending limit",
        "sending quota",
        "message quota",
        "too many connections",
        "too many concurrent",
        "too many messages",
    ];
    let about_the_recipient = matches!(reply.enhanced, Some((_, 1 | 2, _)));
    let text = reply.text.to_ascii_lowercase();
    !about_the_recipient && PHRASES.iter().any(|phrase| text.contains(phrase))
}
