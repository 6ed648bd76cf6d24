//! What an attempt's last event means: the one place that decides it.

use tidings_model::attempt::{AttemptClass, Phase};

use super::Reply;

/// What ended an attempt, or the wish to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpEvent {
    /// The relay answered.
    Reply(Reply),
    /// No connection, or the connection broke, or what came back was no SMTP reply.
    Lost,
    /// No answer within the phase's time.
    Silent,
    /// TLS is required and cannot be had, or the certificate is not trusted.
    NoTls,
    /// The relay offers no way to log in that we know.
    NoLogin,
    /// The relay announced a limit (RFC 1870) that the message exceeds.
    OverSize,
    /// The address or the message cannot be said in this relay's SMTP.
    NotRepresentable,
    /// The sender's own address is none.
    BadSender,
}

/// Decides what `event` in `phase` means.
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
        // Not the answer to what was asked: the two sides are out of step.
        (..=399, Phase::Dot) => AttemptClass::Ambiguous,
        (454, Phase::Auth) => AttemptClass::Throttled,
        (400..=499, _) if is_throttling(reply) => AttemptClass::Throttled,
        // Until EHLO is answered, no reply can be about a message.
        (..=499, _) | (_, Phase::Connect | Phase::Tls | Phase::Greeting | Phase::Ehlo) => AttemptClass::Deferred,
        (530 | 534 | 535, _) | (_, Phase::Auth) => AttemptClass::Configuration,
        _ => classify_rejection(phase, reply),
    }
}

/// A permanent reply (5yz) to MAIL, RCPT, DATA or the content.
fn classify_rejection(phase: Phase, reply: &Reply) -> AttemptClass {
    let (subject, detail) = reply.enhanced.map_or((0, 0), |(_, subject, detail)| (subject, detail));
    match (reply.code, subject, detail) {
        // Before RCPT the relay has not heard the recipient's address, and cannot mean it.
        (550, 1, 1 | 2 | 3 | 6 | 10) if phase > Phase::Mail => AttemptClass::HardBounce,
        (_, 2, 2) => AttemptClass::MailboxFull,
        (_, 7, _) => AttemptClass::Policy,
        (552, ..) | (_, 3, 4) => AttemptClass::TooLarge,
        _ if is_throttling(reply) => AttemptClass::Throttled,
        _ => AttemptClass::Failed,
    }
}

/// What providers say when the sender is too fast: SES ("Maximum sending rate exceeded", "Daily message quota
/// exceeded"), Gmail ("unusual rate", "sending limit exceeded"), Outlook ("throttled"), Postfix ("too many
/// connections"). Replies about one address (x.1.y) or mailbox (x.2.y) are about that one.
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

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE_THE_DOT: [Phase; 9] = [
        Phase::Connect,
        Phase::Tls,
        Phase::Greeting,
        Phase::Ehlo,
        Phase::Auth,
        Phase::Mail,
        Phase::Rcpt,
        Phase::Data,
        Phase::Body,
    ];

    fn replied(phase: Phase, code: u16, text: &str) -> AttemptClass {
        classify(phase, &SmtpEvent::Reply(Reply::new(code, text)))
    }

    #[test]
    fn every_row_of_the_table() {
        use AttemptClass::*;
        use Phase::*;
        let rows = [
            (Dot, 250, "2.0.0 queued", Sent),
            // Cannot connect, TLS, EHLO; 421; any 4xx.
            (Greeting, 554, "5.3.2 no service", Deferred),
            (Tls, 502, "5.5.1 no", Deferred),
            (Ehlo, 550, "5.7.1 go away", Deferred),
            (Mail, 421, "4.3.2 shutting down", Deferred),
            (Rcpt, 450, "4.2.0 greylisted", Deferred),
            (Rcpt, 452, "4.2.2 mailbox full", Deferred),
            (Dot, 421, "4.3.2 shutting down", Deferred),
            (Dot, 451, "4.3.0 try later", Deferred),
            // 454 at AUTH, provider throttling texts.
            (Auth, 454, "4.7.0 Temporary authentication failure", Throttled),
            (Tls, 454, "4.7.0 TLS not available", Deferred),
            (Dot, 454, "Throttling failure: Maximum sending rate exceeded.", Throttled),
            (Mail, 454, "Throttling failure: Daily message quota exceeded.", Throttled),
            (Mail, 421, "4.7.0 Too many connections from your host", Throttled),
            (Greeting, 421, "4.7.28 unusual rate of unsolicited mail", Throttled),
            (Rcpt, 450, "4.2.1 The user is receiving mail at a rate that; too many messages", Deferred),
            (Rcpt, 550, "5.4.5 Daily user sending limit exceeded", Throttled),
            // 530, 534, 535.
            (Mail, 530, "5.7.0 Must issue a STARTTLS command first", Configuration),
            (Auth, 534, "5.7.9 mechanism too weak", Configuration),
            (Auth, 535, "5.7.8 bad credentials", Configuration),
            (Auth, 504, "5.5.4 unknown mechanism", Configuration),
            // 550 with 5.1.1, 5.1.2, 5.1.3, 5.1.6, 5.1.10.
            (Rcpt, 550, "5.1.1 no such user", HardBounce),
            (Rcpt, 550, "5.1.2 no such host", HardBounce),
            (Rcpt, 550, "5.1.3 bad syntax", HardBounce),
            (Rcpt, 550, "5.1.6 moved", HardBounce),
            (Dot, 550, "5.1.10 null MX", HardBounce),
            (Mail, 550, "5.1.1 who are you", Failed),
            (Rcpt, 550, "5.1.8 bad sender", Failed),
            (Rcpt, 550, "no such user", Failed),
            // 5.2.2.
            (Rcpt, 552, "5.2.2 over quota", MailboxFull),
            (Dot, 554, "5.2.2 over quota", MailboxFull),
            // 5.7.x.
            (Rcpt, 550, "5.7.1 relaying denied", Policy),
            (Dot, 550, "5.7.26 unauthenticated", Policy),
            (Mail, 550, "5.7.515 access denied", Policy),
            (Dot, 552, "5.7.0 content blocked", Policy),
            // 552, 5.3.4.
            (Mail, 552, "message too big", TooLarge),
            (Dot, 554, "5.3.4 message too big", TooLarge),
            // Other 5xx.
            (Mail, 553, "5.1.7 bad address syntax", Failed),
            (Data, 554, "no valid recipients", Failed),
            (Dot, 554, "5.6.0 no", Failed),
            // Out of step.
            (Data, 250, "what?", Deferred),
            (Dot, 354, "go on", Ambiguous),
        ];
        for (phase, code, text, class) in rows {
            assert_eq!(replied(phase, code, text), class, "{phase:?}: {code} {text}");
        }
    }

    #[test]
    fn lost_or_silent_is_safe_to_retry_until_the_dot_and_ambiguous_after_it() {
        for event in [SmtpEvent::Lost, SmtpEvent::Silent] {
            for phase in BEFORE_THE_DOT {
                assert_eq!(classify(phase, &event), AttemptClass::Deferred, "{phase:?}");
            }
            assert_eq!(classify(Phase::Dot, &event), AttemptClass::Ambiguous);
        }
    }

    #[test]
    fn what_we_know_without_asking_needs_no_retry() {
        assert_eq!(classify(Phase::Tls, &SmtpEvent::NoTls), AttemptClass::Deferred);
        assert_eq!(classify(Phase::Auth, &SmtpEvent::NoLogin), AttemptClass::Configuration);
        assert_eq!(classify(Phase::Mail, &SmtpEvent::BadSender), AttemptClass::Configuration);
        assert_eq!(classify(Phase::Mail, &SmtpEvent::OverSize), AttemptClass::TooLarge);
        assert_eq!(classify(Phase::Rcpt, &SmtpEvent::NotRepresentable), AttemptClass::Failed);
    }

    #[test]
    fn a_transient_reply_is_never_permanent_and_never_blames_the_recipient() {
        for phase in BEFORE_THE_DOT.into_iter().chain([Phase::Dot]) {
            for code in 400..500 {
                for text in ["", "4.1.1 x", "4.2.2 x", "4.7.1 x", "4.3.4 x"] {
                    let class = replied(phase, code, text);
                    assert!(
                        matches!(class, AttemptClass::Deferred | AttemptClass::Throttled),
                        "{phase:?} {code} {text}: {class:?}"
                    );
                }
            }
        }
    }
}
