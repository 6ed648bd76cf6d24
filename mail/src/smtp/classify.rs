//! The class of an attempt, decided from its last event. What a refusal means is in one table (`tidings_model::replies`).

use tidings_model::attempt::{AttemptClass, Phase};

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
        (..=399, _) => AttemptClass::Deferred,
        _ => reply.refusal(phase).map_or(AttemptClass::Deferred, |row| row.class),
    }
}
