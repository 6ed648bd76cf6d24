//! The sign of each outcome of an attempt.

use tidings_mail::smtp::{Reply, SmtpEvent, classify};
use tidings_model::{attempt::Phase, breaker::Cause};

use super::*;

#[test]
fn an_attempt_says_of_its_relay_what_its_class_says() {
    let delivered = |phase, event: SmtpEvent| AttemptOutcome {
        phase,
        class: classify(phase, &event),
        detail: String::new(),
        reply: if let SmtpEvent::Reply(reply) = event { Some(reply) } else { None },
    };
    let replied = |phase, code, text: &str| delivered(phase, SmtpEvent::Reply(Reply::new(code, text)));
    for (delivery, sign) in [
        (replied(Phase::Dot, 250, "2.0.0 ok"), Sign::Well(1)),
        (replied(Phase::Rcpt, 550, "5.1.1 no"), Sign::Bounced),
        (replied(Phase::Rcpt, 550, "5.7.1 no"), Sign::Answered),
        (replied(Phase::Rcpt, 550, "no"), Sign::Answered),
        (replied(Phase::Dot, 550, "5.7.1 no"), Sign::Fault(Cause::Policy)),
        (replied(Phase::Mail, 550, "no"), Sign::Fault(Cause::Configuration)),
        (replied(Phase::Mail, 451, "4.3.0 later"), Sign::Fault(Cause::Outage)),
        (replied(Phase::Mail, 432, "4.3.2 Concurrent connections limit exceeded"), Sign::Nothing),
        (replied(Phase::Mail, 451, "4.3.2 Mails per session limit"), Sign::Fault(Cause::Outage)),
        (replied(Phase::Dot, 550, "5.4.5 Daily user sending quota exceeded"), Sign::Fault(Cause::DailyQuota)),
        (replied(Phase::Dot, 550, "exceeded hour limit"), Sign::Fault(Cause::HourlyQuota)),
        (replied(Phase::Auth, 535, "5.7.8 no"), Sign::Fault(Cause::Configuration)),
        (replied(Phase::Dot, 454, "Throttling failure"), Sign::Fault(Cause::Throttled)),
        (delivered(Phase::Connect, SmtpEvent::Lost), Sign::Fault(Cause::Outage)),
        (delivered(Phase::Tls, SmtpEvent::NoTls), Sign::Fault(Cause::Outage)),
        (replied(Phase::Greeting, 421, "4.3.2 no"), Sign::Fault(Cause::Outage)),
        (replied(Phase::Rcpt, 451, "4.3.0 later"), Sign::Answered),
        (replied(Phase::Rcpt, 552, "5.2.2 full"), Sign::Answered),
        (delivered(Phase::Body, SmtpEvent::Lost), Sign::Nothing),
        (delivered(Phase::Dot, SmtpEvent::Silent), Sign::Nothing),
        (delivered(Phase::Rcpt, SmtpEvent::NotRepresentable), Sign::Nothing),
    ] {
        let said = Sign::of(delivery.phase, delivery.class, delivery.reply.is_some(), delivery.refusal());
        assert_eq!(said, sign, "{delivery:?}");
    }
}

#[test]
fn a_message_past_the_dot_is_awaited_until_its_attempt_is_over() {
    let (relays, message) = (Relays::default(), Uuid::from_u128(1));
    let awaited = relays.await_reply(message);
    assert!(relays.awaits_reply(message) && !relays.awaits_reply(Uuid::from_u128(2)));
    drop(awaited);
    assert!(!relays.awaits_reply(message));
}
