//! Decides what follows from an attempt's end (rules 25 to 27).

use std::time::Duration;

use jiff::Timestamp;
use tidings_mail::smtp::{AttemptOutcome, SmtpReply};
use tidings_model::{
    attempt::{AttemptClass, AttemptPhase},
    records::{AttemptEnd, MessageOrigin, Suppression, SuppressionReason},
    step::SendAnswer,
    window::{DigestOutcome, WindowEnd},
};

use super::ShorterMessage;

pub(super) fn withheld_attempt() -> (AttemptEnd, WindowEnd) {
    let why = "an earlier attempt was past the dot, and the stream sends at most once".to_owned();
    let closed = WindowEnd { outcome: DigestOutcome::Ambiguous, why };
    let end = AttemptEnd {
        phase: AttemptPhase::Connect,
        class: AttemptClass::Cancelled,
        reply: String::new(),
        relay_id: None,
        closed: Some(closed.clone()),
        suppress: None,
        consecutive: 1,
        return_events: false,
    };
    (end, closed)
}

/// What to blame for an unreachable relay or a rejection. See
/// [`Breaker::charges`](tidings_model::breaker::Breaker::charges).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusalCharge {
    Relay,
    /// We cannot tell yet, so we send the message once more.
    Nobody,
    Message,
    /// The message's former sender. Email from the current one may be fine.
    FormerSender,
}

#[derive(Clone, Copy)]
pub(super) struct RetryContext {
    pub may_resend: bool,
    pub shorter: ShorterMessage,
    pub last: bool,
    pub had_ambiguous_attempt: bool,
    /// See [`Settings::soft_bounces`](tidings_model::settings::Settings::soft_bounces).
    pub soft_bounces: u32,
    pub charge: RefusalCharge,
    pub retry_delay: Duration,
}

/// Maps each class of outcome to its effects on the ledger and the workflow. Nothing else decides them.
pub(super) fn verdict(
    delivery: &AttemptOutcome,
    (origin, envelope_to): (&MessageOrigin, &str),
    context: RetryContext,
    now: Timestamp,
) -> (AttemptEnd, SendAnswer) {
    let why = delivery.detail.clone();
    let sent = next_step(delivery, context, now);
    let (suppress, consecutive) = match delivery.class {
        AttemptClass::HardBounce => (Some(SuppressionReason::HardBounce), 1),
        AttemptClass::MailboxFull | AttemptClass::UnknownMailbox | AttemptClass::Refused => {
            (Some(SuppressionReason::SoftBounces), context.soft_bounces)
        }
        _ => (None, 1),
    };
    // Do not suppress the address while we still retry.
    let suppress = suppress.filter(|_| matches!(sent, SendAnswer::Closed { .. }));
    let end = AttemptEnd {
        phase: delivery.phase,
        class: delivery.class,
        reply: delivery.reply.as_ref().map(ToString::to_string).unwrap_or_default(),
        relay_id: delivery
            .reply
            .as_ref()
            .filter(|_| delivery.class == AttemptClass::Sent)
            .and_then(SmtpReply::queued_as),
        closed: match &sent {
            SendAnswer::Closed { closed, .. } => Some(closed.clone()),
            SendAnswer::Deferred { .. } | SendAnswer::Waiting { .. } | SendAnswer::Unrecorded(_) => None,
        },
        suppress: suppress.map(|reason| Suppression {
            tenant: origin.tenant().to_owned(),
            address: envelope_to.to_owned(),
            reason,
            detail: why,
            at: now,
        }),
        consecutive,
        return_events: delivery.class == AttemptClass::Deferred
            && matches!(sent, SendAnswer::Closed { .. })
            && !context.had_ambiguous_attempt,
    };
    (end, sent)
}

fn next_step(delivery: &AttemptOutcome, context: RetryContext, now: Timestamp) -> SendAnswer {
    let RetryContext { may_resend, shorter, last, had_ambiguous_attempt, charge, .. } = context;
    let why = delivery.detail.clone();
    let closed = |outcome, why| SendAnswer::closed(WindowEnd { outcome, why });
    let later = || {
        let until = now.saturating_add(context.retry_delay).unwrap_or(Timestamp::MAX);
        SendAnswer::Waiting { until, why: why.clone(), pause: None, too_large: None, moment: false }
    };
    let exhausted = |outcome| closed(outcome, format!("the last attempt failed, too: {why}"));
    match delivery.class {
        AttemptClass::Sent => closed(DigestOutcome::Sent, String::new()),
        AttemptClass::Ambiguous if !may_resend => closed(DigestOutcome::Ambiguous, why),
        // The recipient may have the message, so another digest must not repeat its events.
        AttemptClass::Ambiguous if last => exhausted(DigestOutcome::Ambiguous),
        AttemptClass::Deferred if delivery.refusal().is_some_and(|row| !row.about.costs_attempt()) => later(),
        AttemptClass::Policy | AttemptClass::Configuration | AttemptClass::RecipientPolicy
            if charge == RefusalCharge::FormerSender =>
        {
            match (last, had_ambiguous_attempt) {
                (false, _) => SendAnswer::Deferred { why, again_in: None },
                (true, true) => exhausted(DigestOutcome::Ambiguous),
                (true, false) => exhausted(DigestOutcome::Failed),
            }
        }
        // This message is rejected every time, but the relay accepts others.
        AttemptClass::Policy if charge == RefusalCharge::Message && last => exhausted(DigestOutcome::Failed),
        AttemptClass::Policy if charge == RefusalCharge::Message => SendAnswer::Deferred { why, again_in: None },
        // The relay rejects everyone, or cannot be reached while another could. Its breaker decides when to
        // try again.
        AttemptClass::Refused | AttemptClass::RecipientPolicy | AttemptClass::Deferred
            if charge == RefusalCharge::Relay =>
        {
            SendAnswer::Waiting { until: now, why, pause: None, too_large: None, moment: false }
        }
        // The relay may be rejecting us and not the recipient. In this case its breaker should be open at the
        // next try.
        AttemptClass::Refused | AttemptClass::RecipientPolicy if charge == RefusalCharge::Nobody => later(),
        AttemptClass::Deferred if last && had_ambiguous_attempt => exhausted(DigestOutcome::Ambiguous),
        AttemptClass::Deferred if last => exhausted(DigestOutcome::Failed),
        AttemptClass::Deferred | AttemptClass::Ambiguous | AttemptClass::Fenced | AttemptClass::Cancelled => {
            SendAnswer::Deferred { why, again_in: None }
        }
        AttemptClass::TooLarge if shorter != ShorterMessage::Never => {
            let too_large = if let ShorterMessage::Asked(attempt) = shorter { Some(attempt) } else { None };
            SendAnswer::Waiting { until: now, why, pause: None, too_large, moment: false }
        }
        // The relay is at fault. The breakers decide when a relay accepts the message.
        AttemptClass::Throttled | AttemptClass::Configuration | AttemptClass::Policy => {
            SendAnswer::Waiting { until: now, why, pause: None, too_large: None, moment: false }
        }
        AttemptClass::HardBounce
        | AttemptClass::MailboxFull
        | AttemptClass::UnknownMailbox
        | AttemptClass::Refused
        | AttemptClass::RecipientPolicy
        | AttemptClass::TooLarge
        | AttemptClass::Failed => closed(DigestOutcome::Failed, why),
    }
}

#[cfg(test)]
mod tests {
    use tidings_mail::smtp::{SmtpEvent, classify};
    use tidings_model::{
        Key,
        attempt::AttemptPhase::{self, Connect, Dot, Greeting, Mail, Rcpt},
    };

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn replied(phase: AttemptPhase, code: u16, text: &str) -> AttemptOutcome {
        let reply = SmtpReply::new(code, text);
        let class = classify(phase, &SmtpEvent::Reply(reply.clone()));
        AttemptOutcome { phase, class, detail: String::new(), reply: Some(reply) }
    }

    /// What follows, and the reason of a suppression.
    fn decided(
        delivery: &AttemptOutcome,
        last: bool,
        charge: RefusalCharge,
    ) -> (&'static str, Option<SuppressionReason>) {
        let context = RetryContext {
            may_resend: true,
            shorter: ShorterMessage::Never,
            last,
            had_ambiguous_attempt: false,
            soft_bounces: 5,
            charge,
            retry_delay: Duration::from_mins(1),
        };
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        let (end, sent) = verdict(delivery, (&MessageOrigin::Digest(key), "ann@example.net"), context, NOW);
        let minute = NOW.saturating_add(Duration::from_mins(1)).unwrap();
        let follows = match sent {
            SendAnswer::Closed { .. } if end.return_events => "fails and returns its events",
            SendAnswer::Closed { .. } => "fails",
            SendAnswer::Deferred { .. } => "costs an attempt",
            SendAnswer::Waiting { until, .. } if until == minute => "waits a delay",
            SendAnswer::Waiting { .. } => "waits for the breaker",
            SendAnswer::Unrecorded(_) => "unrecorded",
        };
        (follows, end.suppress.map(|suppression| suppression.reason))
    }

    #[test]
    fn only_what_is_about_recipient_or_message_costs_an_attempt() {
        let lost = AttemptOutcome { phase: Connect, class: AttemptClass::Deferred, detail: String::new(), reply: None };
        for (delivery, first, last) in [
            (replied(Rcpt, 450, "4.2.0 greylisted"), "costs an attempt", "fails and returns its events"),
            (replied(Dot, 451, "4.3.0 later"), "costs an attempt", "fails and returns its events"),
            (lost, "costs an attempt", "fails and returns its events"),
            (replied(Greeting, 421, "4.3.2 busy"), "waits a delay", "waits a delay"),
            (replied(Mail, 451, "4.3.0 later"), "waits a delay", "waits a delay"),
            (replied(Mail, 451, "4.3.2 Mails per session limit"), "waits a delay", "waits a delay"),
            (replied(Mail, 432, "4.3.2 Concurrent connections limit exceeded"), "waits a delay", "waits a delay"),
            (replied(Mail, 517, "Domain does not exist"), "waits for the breaker", "waits for the breaker"),
            (replied(Rcpt, 450, "4.1.8 no such domain"), "waits for the breaker", "waits for the breaker"),
            (replied(Rcpt, 550, "relay not permitted"), "waits for the breaker", "waits for the breaker"),
            (replied(Dot, 550, "exceeded hour limit"), "waits for the breaker", "waits for the breaker"),
            (replied(Dot, 554, "5.6.0 no"), "fails", "fails"),
        ] {
            assert_eq!(decided(&delivery, false, RefusalCharge::Nobody), (first, None), "{delivery:?}");
            assert_eq!(decided(&delivery, true, RefusalCharge::Nobody), (last, None), "{delivery:?}");
        }
    }

    #[test]
    fn a_recipient_that_is_refused_without_a_reason_is_asked_once_more() {
        let soft = Some(SuppressionReason::SoftBounces);
        for (delivery, once, twice) in [
            (replied(Rcpt, 550, "no"), ("waits a delay", None), ("fails", soft)),
            (replied(Rcpt, 550, "5.4.1 access denied"), ("waits a delay", None), ("fails", soft)),
            (replied(Rcpt, 550, "5.7.133 not for you"), ("waits a delay", None), ("fails", None)),
            (replied(Rcpt, 550, "no such user"), ("fails", soft), ("fails", soft)),
            (replied(Rcpt, 552, "5.2.2 full"), ("fails", soft), ("fails", soft)),
            (
                replied(Rcpt, 550, "5.1.1 no"),
                ("fails", Some(SuppressionReason::HardBounce)),
                ("fails", Some(SuppressionReason::HardBounce)),
            ),
        ] {
            for last in [false, true] {
                assert_eq!(decided(&delivery, last, RefusalCharge::Nobody), once, "{delivery:?}");
                assert_eq!(decided(&delivery, last, RefusalCharge::Message), twice, "{delivery:?}");
            }
        }
    }
    #[test]
    fn a_refusal_of_a_former_sender_costs_attempts_and_suppresses_nobody() {
        for delivery in [
            replied(Mail, 550, "5.7.1 Sender address rejected: not owned by user"),
            replied(Mail, 517, "Domain does not exist"),
            replied(Rcpt, 553, "5.7.1 <address>: Sender address rejected: not owned by user"),
            replied(Dot, 550, "5.7.1 no"),
        ] {
            let found = [false, true].map(|last| decided(&delivery, last, RefusalCharge::FormerSender));
            assert_eq!(found, [("costs an attempt", None), ("fails", None)], "{delivery:?}");
        }
    }

    #[test]
    fn a_relay_that_refuses_everybody_ends_nothing_and_a_message_that_always_meets_a_policy_does() {
        for (delivery, charge, follows) in [
            (replied(Rcpt, 550, "no"), RefusalCharge::Relay, ["waits for the breaker"; 2]),
            (replied(Rcpt, 550, "5.7.1 no"), RefusalCharge::Relay, ["waits for the breaker"; 2]),
            (replied(Dot, 550, "5.7.1 no"), RefusalCharge::Relay, ["waits for the breaker"; 2]),
            (replied(Dot, 550, "5.7.1 no"), RefusalCharge::Message, ["costs an attempt", "fails"]),
        ] {
            let found = [false, true].map(|last| decided(&delivery, last, charge));
            assert_eq!(found, follows.map(|follows| (follows, None)), "{delivery:?}");
        }
    }
}
