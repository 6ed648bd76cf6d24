//! The sign of each outcome of an attempt.

use tidings_mail::smtp::{SmtpEvent, SmtpReply, classify};
use tidings_model::{attempt::AttemptPhase, breaker::BreakerCause};

use super::*;

#[test]
fn an_attempt_says_of_its_relay_what_its_class_says() {
    let delivered = |phase, event: SmtpEvent| AttemptOutcome {
        phase,
        class: classify(phase, &event),
        detail: String::new(),
        reply: if let SmtpEvent::Reply(reply) = event { Some(reply) } else { None },
    };
    let replied = |phase, code, text: &str| delivered(phase, SmtpEvent::Reply(SmtpReply::new(code, text)));
    for (delivery, sign) in [
        (replied(AttemptPhase::Dot, 250, "2.0.0 ok"), RelayObservation::Well(1)),
        (replied(AttemptPhase::Rcpt, 550, "5.1.1 no"), RelayObservation::Bounced),
        (replied(AttemptPhase::Rcpt, 550, "5.7.1 no"), RelayObservation::Answered),
        (replied(AttemptPhase::Rcpt, 550, "no"), RelayObservation::Answered),
        (replied(AttemptPhase::Dot, 550, "5.7.1 no"), RelayObservation::Fault(BreakerCause::Policy)),
        (replied(AttemptPhase::Mail, 550, "no"), RelayObservation::Fault(BreakerCause::Configuration)),
        (replied(AttemptPhase::Mail, 451, "4.3.0 later"), RelayObservation::Fault(BreakerCause::Outage)),
        (replied(AttemptPhase::Mail, 432, "4.3.2 Concurrent connections limit exceeded"), RelayObservation::Nothing),
        (
            replied(AttemptPhase::Mail, 451, "4.3.2 Mails per session limit"),
            RelayObservation::Fault(BreakerCause::Outage),
        ),
        (
            replied(AttemptPhase::Dot, 550, "5.4.5 Daily user sending quota exceeded"),
            RelayObservation::Fault(BreakerCause::DailyQuota),
        ),
        (replied(AttemptPhase::Dot, 550, "exceeded hour limit"), RelayObservation::Fault(BreakerCause::HourlyQuota)),
        (replied(AttemptPhase::Auth, 535, "5.7.8 no"), RelayObservation::Fault(BreakerCause::Configuration)),
        (replied(AttemptPhase::Dot, 454, "Throttling failure"), RelayObservation::Fault(BreakerCause::Throttled)),
        (delivered(AttemptPhase::Connect, SmtpEvent::Lost), RelayObservation::Fault(BreakerCause::Outage)),
        (delivered(AttemptPhase::Tls, SmtpEvent::NoTls), RelayObservation::Fault(BreakerCause::Outage)),
        (replied(AttemptPhase::Greeting, 421, "4.3.2 no"), RelayObservation::Fault(BreakerCause::Outage)),
        (replied(AttemptPhase::Rcpt, 451, "4.3.0 later"), RelayObservation::Answered),
        (replied(AttemptPhase::Rcpt, 552, "5.2.2 full"), RelayObservation::Answered),
        (delivered(AttemptPhase::Body, SmtpEvent::Lost), RelayObservation::Nothing),
        (delivered(AttemptPhase::Dot, SmtpEvent::Silent), RelayObservation::Nothing),
        (delivered(AttemptPhase::Rcpt, SmtpEvent::NotRepresentable), RelayObservation::Nothing),
    ] {
        let said = RelayObservation::from_attempt(
            delivery.phase,
            delivery.class,
            delivery.reply.is_some(),
            delivery.refusal(),
        );
        assert_eq!(said, sign, "{delivery:?}");
    }
}

#[test]
fn a_message_past_the_dot_is_awaited_until_its_attempt_is_over() {
    let (relays, message) = (RelaySet::default(), Uuid::from_u128(1));
    let awaited = relays.await_reply(message);
    assert!(relays.awaits_reply(message) && !relays.awaits_reply(Uuid::from_u128(2)));
    drop(awaited);
    assert!(!relays.awaits_reply(message));
}
