//! A relay's reply: taken apart without harm, and classified by the laws of docs/delivery.md.

use tidings_mail::smtp::{SmtpEvent, SmtpReply, classify};
use tidings_model::attempt::{AttemptClass, AttemptPhase};

use super::presentable::assert_presentable;

/// Takes a reply apart, and looks at it from every phase.
pub(super) fn reply(code: u16, text: &str) {
    let reply = SmtpReply::new(code, text);
    fit(&reply);
    assert_eq!((reply.code, reply.enhanced), (code, enhanced(code, text)), "{text:?}");
    for phase in AttemptPhase::ALL.into_iter().filter(|phase| *phase != AttemptPhase::Done) {
        let class = classify(phase, &SmtpEvent::Reply(reply.clone()));
        assert!(lawful(phase, &reply, class), "{phase:?}: {reply}: {class:?}");
    }
}

/// For ledger and logs: no address, one line, bounded.
pub(super) fn fit(reply: &SmtpReply) {
    assert_presentable("a reply", &reply.to_string(), 4 * 300 + 20);
    assert!(reply.text.chars().count() <= 300 && !reply.text.contains('@'), "{reply}");
}

/// The first word, where it is three numbers of up to three digits and the first repeats the code's (RFC 3463).
fn enhanced(code: u16, text: &str) -> Option<(u16, u16, u16)> {
    let word = text.split_whitespace().next()?;
    let numbers: Vec<&str> = word.split('.').collect();
    let number = |text: &str| {
        let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    let [class, subject, detail] = numbers[..] else { return None };
    let code_class = code / 100;
    Some((number(class).filter(|class| *class == code_class)?, number(subject)?, number(detail)?))
}

fn lawful(phase: AttemptPhase, reply: &SmtpReply, class: AttemptClass) -> bool {
    // A sender that is refused for now is our mistake all the same.
    let retried = matches!(class, AttemptClass::Deferred | AttemptClass::Throttled | AttemptClass::Configuration);
    let by_code = match (reply.code / 100, phase) {
        (2, AttemptPhase::Dot) => class == AttemptClass::Sent,
        (0..=3, AttemptPhase::Dot) => class == AttemptClass::Ambiguous,
        (0..=3, _) => class == AttemptClass::Deferred,
        (4, _) => retried,
        _ => !matches!(
            class,
            AttemptClass::Sent | AttemptClass::Ambiguous | AttemptClass::Fenced | AttemptClass::Cancelled
        ),
    };
    let subject = reply.enhanced.map(|(_, subject, detail)| (subject, detail));
    let by_class = match class {
        // Only after RCPT has the relay heard of the recipient, and it must mean the address.
        AttemptClass::HardBounce => {
            phase > AttemptPhase::Mail && reply.code == 550 && matches!(subject, Some((1, 1 | 2 | 3 | 6 | 10)))
        }
        AttemptClass::MailboxFull => matches!(subject, Some((2, 2))),
        AttemptClass::Policy => matches!(subject, Some((7, _))),
        AttemptClass::RecipientPolicy => phase == AttemptPhase::Rcpt && matches!(subject, Some((7, _))),
        AttemptClass::Refused | AttemptClass::UnknownMailbox => phase == AttemptPhase::Rcpt && reply.code >= 500,
        _ => true,
    };
    let unheard = phase <= AttemptPhase::Ehlo && reply.code >= 500 && class != AttemptClass::Deferred;
    by_code && by_class && !unheard
}
