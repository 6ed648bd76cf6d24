//! Classifies an attempt by its last event. For refusals, see the table in `tidings_model::replies`.

use tidings_model::attempt::{AttemptClass, AttemptPhase};

use super::reply::SmtpReply;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpEvent {
    Reply(SmtpReply),
    /// Also used if the bytes received are not an SMTP reply.
    Lost,
    Silent,
    /// TLS is required but not available, or the certificate is not trusted.
    NoTls,
    /// Neither AUTH PLAIN nor AUTH LOGIN.
    NoLogin,
    /// The message exceeds the limit announced by the relay (RFC 1870).
    OverSize,
    /// This relay's extensions cannot carry the address or the message.
    NotRepresentable,
    BadSender,
}

#[must_use]
pub fn classify(phase: AttemptPhase, event: &SmtpEvent) -> AttemptClass {
    match event {
        SmtpEvent::Reply(reply) => classify_reply(phase, reply),
        SmtpEvent::Lost | SmtpEvent::Silent if phase == AttemptPhase::Dot => AttemptClass::Ambiguous,
        SmtpEvent::Lost | SmtpEvent::Silent | SmtpEvent::NoTls => AttemptClass::Deferred,
        SmtpEvent::NoLogin | SmtpEvent::BadSender => AttemptClass::Configuration,
        SmtpEvent::OverSize => AttemptClass::TooLarge,
        SmtpEvent::NotRepresentable => AttemptClass::Failed,
    }
}

fn classify_reply(phase: AttemptPhase, reply: &SmtpReply) -> AttemptClass {
    match (reply.code, phase) {
        (200..=299, AttemptPhase::Dot | AttemptPhase::Done) => AttemptClass::Sent,
        // This reply belongs to another command, so both sides are out of step.
        (..=399, AttemptPhase::Dot) => AttemptClass::Ambiguous,
        (..=399, _) => AttemptClass::Deferred,
        _ => reply.refusal(phase).map_or(AttemptClass::Deferred, |row| row.class),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::samples::{Follows::OpenBreaker, OUTCOMES},
        *,
    };

    #[test]
    fn each_row_of_the_table_has_its_class() {
        for row in OUTCOMES {
            assert_eq!(classify(row.phase, &row.event.to_smtp_event()), row.class, "{row:?}");
        }
    }

    #[test]
    fn the_same_class_is_always_followed_by_the_same_step() {
        for row in OUTCOMES {
            let first = OUTCOMES.iter().find(|other| other.class == row.class).unwrap();
            // A relay that wants fewer messages may say for how long.
            let same = |one, other| one == other || matches!((one, other), (OpenBreaker(_), OpenBreaker(_)));
            assert!(same(first.follows, row.follows), "{row:?} and {first:?}");
        }
    }

    #[test]
    fn a_lost_or_silent_attempt_is_ambiguous_only_after_the_dot() {
        for event in [SmtpEvent::Lost, SmtpEvent::Silent] {
            for phase in AttemptPhase::ALL.into_iter().take_while(|phase| *phase < AttemptPhase::Dot) {
                assert_eq!(classify(phase, &event), AttemptClass::Deferred, "{phase:?}");
            }
            assert_eq!(classify(AttemptPhase::Dot, &event), AttemptClass::Ambiguous);
        }
    }

    #[test]
    fn a_transient_reply_is_never_permanent_and_never_blames_the_recipient() {
        for phase in AttemptPhase::ALL.into_iter().take_while(|phase| *phase <= AttemptPhase::Dot) {
            for code in 400..500 {
                for text in ["", "4.1.1 x", "4.2.2 x", "4.7.1 x", "4.3.4 x"] {
                    let class = classify(phase, &SmtpEvent::Reply(SmtpReply::new(code, text)));
                    let is_transient = matches!(class, AttemptClass::Deferred | AttemptClass::Throttled);
                    assert!(is_transient, "{phase:?} {code} {text}: {class:?}");
                }
            }
        }
    }
}
