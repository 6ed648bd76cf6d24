//! A relay's reply, made safe for the ledger and logs: no addresses, no control characters, limited length.
//! Also the failure of a step, which is often a reply.

use std::{fmt, io, iter, time::Duration};

use lettre::transport::smtp::response::Response;
use tidings_model::{
    attempt::{AttemptClass, AttemptPhase},
    delivery_events::parse_enhanced_status,
    presentable,
    replies::{self, RefusalSubject, ReplyRow},
};
use tokio::time::timeout;
use tracing::{Instrument, debug_span};

use super::classify::SmtpEvent;

/// RFC 5321 4.2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtpReply {
    pub code: u16,
    /// Enhanced status code (RFC 3463): class, subject, detail. Set if its class matches the code's first
    /// digit.
    pub enhanced: Option<(u16, u16, u16)>,
    /// After the codes, at most 300 characters, with `<address>` for every address.
    pub text: String,
}

impl SmtpReply {
    /// `text` is everything after the code; lines may be joined by spaces.
    #[must_use]
    pub fn new(code: u16, text: &str) -> Self {
        let text = text.trim();
        let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match parse_enhanced_status(first).filter(|(class, ..)| *class == code / 100) {
            Some(enhanced) => Self { code, enhanced: Some(enhanced), text: presentable(rest) },
            None => Self { code, enhanced: None, text: presentable(text) },
        }
    }

    /// Hides the recipient's local part, which some relays quote without its domain: "User <ann> unknown"
    /// (Courier 1.0.16), also in another encoding. Does nothing if this would change the reply's
    /// classification, e.g. for the local part `unknown`.
    pub(super) fn hide(&mut self, local_part: &str, phase: AttemptPhase) {
        // `text` has single spaces, so match this.
        let local_part = &local_part.split_whitespace().collect::<Vec<_>>().join(" ");
        let garbled = local_part.replace(|c: char| !c.is_ascii(), "\u{fffd}");
        let text = without_word(&without_word(&self.text, local_part), &garbled);
        let hidden = Self { text, ..self.clone() };
        if hidden.refusal(phase) == self.refusal(phase) {
            *self = hidden;
        }
    }

    /// The relay's queue id from the reply to DATA: the word after "queued as" (Postfix, SendGrid), "queued"
    /// in brackets (Haraka 3.3.4) or "id=" (Exim), the word before "Message accepted for delivery" (sendmail
    /// 8.17, `OpenSMTPD` 6.8), or otherwise a word with at least 16 characters including a digit (Amazon
    /// SES).
    #[must_use]
    pub fn queued_as(&self) -> Option<String> {
        let words: Vec<_> =
            self.text.split_ascii_whitespace().map(|word| word.trim_end_matches(['.', ',', ';'])).collect();
        let in_brackets = |word: &'_ str| word.strip_prefix('(')?.strip_suffix(')').map(str::to_owned);
        let is_queued = |word: &str| word.eq_ignore_ascii_case("queued");
        let named = words.windows(3).find_map(|words| match words {
            [queued, "as", id] if is_queued(queued) => Some(*id),
            _ => None,
        });
        let bracketed = || words.windows(2).find(|words| is_queued(words[0])).and_then(|words| in_brackets(words[1]));
        if let (None, Some(id)) = (named, bracketed()) {
            return Some(id).filter(|id| is_id(id));
        }
        let named = named.or_else(|| match &words[..] {
            [id, "Message", "accepted", "for", "delivery", ..] => Some(*id),
            _ => None,
        });
        let named = named.or_else(|| words.iter().find_map(|word| word.strip_prefix("id=")));
        let long = |word: &&&str| word.len() >= LONG_ID && word.bytes().any(|byte| byte.is_ascii_digit());
        let id = named.or_else(|| words.iter().filter(|word| is_id(word)).find(long).copied());
        id.filter(|id| is_id(id)).map(str::to_owned)
    }

    #[must_use]
    pub fn refusal(&self, phase: AttemptPhase) -> Option<&'static ReplyRow> {
        let Self { code, enhanced, text } = self;
        (400..600).contains(code).then(|| replies::classify_refusal(phase, *code, *enhanced, text))
    }

    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.code / 100 == 2
    }
}

impl From<&Response> for SmtpReply {
    /// Keeps the first line, or all lines for a refusal. A repeated enhanced code appears once.
    fn from(response: &Response) -> Self {
        let code = u16::from(response.code());
        let label = response
            .first_word()
            .filter(|word| parse_enhanced_status(word).is_some_and(|(class, ..)| class == code / 100));
        let unlabelled =
            |line| label.and_then(|label| str::strip_prefix(line, label)?.strip_prefix(' ')).unwrap_or(line);
        let mut lines = response.message();
        let first = lines.next().unwrap_or_default();
        let rest = lines.filter(|_| !response.is_positive()).map(|line| unlabelled(line).trim_start());
        Self::new(code, &iter::once(first).chain(rest).collect::<Vec<_>>().join(" "))
    }
}

/// Whole words only, ignoring case.
fn without_word(text: &str, word: &str) -> String {
    if word.is_empty() {
        return text.to_owned();
    }
    let (lower, word) = (text.to_ascii_lowercase(), word.to_ascii_lowercase());
    let joins = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let (mut clean, mut from) = (String::with_capacity(text.len()), 0);
    for (at, found) in lower.match_indices(&word) {
        let after = at + found.len();
        if at >= from && !joins(text[..at].chars().next_back()) && !joins(text[after..].chars().next()) {
            clean.push_str(&text[from..at]);
            clean.push_str("<address>");
            from = after;
        }
    }
    clean.push_str(&text[from..]);
    clean.replace("<<address>>", "<address>")
}

/// For a word with a digit to count as the queue id.
const LONG_ID: usize = 16;

fn is_id(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !word.is_empty() && word.len() <= 255 && word.bytes().all(fits)
}

impl fmt::Display for SmtpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some((class, subject, detail)) = self.enhanced {
            write!(f, " {class}.{subject}.{detail}")?;
        }
        if self.text.is_empty() { Ok(()) } else { write!(f, " {}", self.text) }
    }
}

#[derive(Debug)]
pub(super) struct SmtpFailure {
    pub phase: AttemptPhase,
    pub event: SmtpEvent,
    pub detail: String,
}

impl SmtpFailure {
    pub fn new(phase: AttemptPhase, event: SmtpEvent, detail: impl Into<String>) -> Self {
        Self { phase, event, detail: detail.into() }
    }

    pub fn connection_lost(phase: AttemptPhase, error: &io::Error) -> Self {
        Self::new(phase, SmtpEvent::Lost, format!("the connection is lost: {error}"))
    }

    pub fn timed_out(phase: AttemptPhase, limit: Duration) -> Self {
        Self::new(phase, SmtpEvent::Silent, format!("no answer within {limit:?}"))
    }

    /// Hides the recipient's local part in the relay's reply.
    pub fn with_hidden(mut self, local_part: &str) -> Self {
        if let SmtpEvent::Reply(reply) = &mut self.event {
            reply.hide(local_part, self.phase);
        }
        self
    }

    pub fn from_reply(phase: AttemptPhase, reply: SmtpReply) -> Self {
        Self::new(phase, SmtpEvent::Reply(reply), "")
    }

    /// Such bytes may contain anything, so we omit them.
    pub fn unreadable_reply(phase: AttemptPhase) -> Self {
        Self::new(phase, SmtpEvent::Lost, "the connection was closed, or the bytes received are not an SMTP reply")
    }

    /// Returns `true` if a new session may work: the relay closed an idle connection (reported with 421 or
    /// not at all), a network dropped it, or the relay takes no more messages on this one.
    pub fn is_about_session(&self) -> bool {
        match (&self.event, self.refusal()) {
            (SmtpEvent::Lost | SmtpEvent::Silent, _) => self.phase == AttemptPhase::Mail,
            (SmtpEvent::Reply(reply), Some(row)) => {
                let is_transient_us = row.about == RefusalSubject::Us && row.class == AttemptClass::Deferred;
                reply.code == 421 || row.about == RefusalSubject::Session || is_transient_us
            }
            _ => false,
        }
    }

    /// Returns `true` if the relay refuses or closes connections, perhaps because we have one too many.
    pub fn is_about_connections(&self) -> bool {
        let is_closed = matches!(self.event, SmtpEvent::Lost | SmtpEvent::Reply(_)) && self.phase <= AttemptPhase::Ehlo;
        is_closed || self.refusal().is_some_and(|row| row.about == RefusalSubject::Connections)
    }

    /// Returns `true` if the relay only refused a command and waits for the next one. Do not reuse a session
    /// that refuses messages.
    pub fn leaves_the_connection_usable(&self) -> bool {
        match (&self.event, self.refusal()) {
            (SmtpEvent::Reply(reply), Some(row)) => {
                let is_given_up = matches!(row.about, RefusalSubject::Session | RefusalSubject::Connections)
                    || (row.about == RefusalSubject::Us && self.phase == AttemptPhase::Mail);
                reply.code != 421 && !is_given_up
            }
            (event, _) => matches!(event, SmtpEvent::OverSize | SmtpEvent::NotRepresentable),
        }
    }

    /// Returns `true` if the relay rejected the user name or secret.
    pub fn refuses_login(&self) -> bool {
        self.phase == AttemptPhase::Auth && matches!(&self.event, SmtpEvent::Reply(reply) if reply.code >= 500)
    }

    fn refusal(&self) -> Option<&'static ReplyRow> {
        if let SmtpEvent::Reply(reply) = &self.event { reply.refusal(self.phase) } else { None }
    }
}

pub(super) async fn with_timeout<T>(
    limit: Duration,
    phase: AttemptPhase,
    step: impl Future<Output = Result<T, SmtpFailure>>,
) -> Result<T, SmtpFailure> {
    let step = timeout(limit, step).instrument(debug_span!("smtp_step", phase = phase.name()));
    step.await.unwrap_or_else(|_| Err(SmtpFailure::timed_out(phase, limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_taken_apart() {
        let reply = SmtpReply::new(550, "5.1.1 no such user");
        assert_eq!((reply.code, reply.enhanced, reply.text.as_str()), (550, Some((5, 1, 1)), "no such user"));
        assert_eq!(reply.to_string(), "550 5.1.1 no such user");
        assert_eq!(SmtpReply::new(250, "").to_string(), "250");
    }

    #[test]
    fn an_enhanced_code_of_another_class_is_only_text() {
        assert_eq!(SmtpReply::new(450, "5.1.1 odd").enhanced, None);
        assert_eq!(SmtpReply::new(550, "127.0.0.1 is blocked").enhanced, None);
        assert_eq!(SmtpReply::new(550, "5.+1.1 odd").enhanced, None);
    }

    #[test]
    fn no_address_survives_in_a_reply() {
        for text in [
            "5.1.1 <ann@example.com>: Recipient address rejected",
            "5.1.1 mailto:ann@example.com unknown",
            "'ann@example.com' (ann%40example.com), \"ann@example.com\";ann@example.com",
            "\u{1b}ann@example.com",
        ] {
            let shown = SmtpReply::new(550, text).to_string();
            assert!(!shown.contains("ann") && !shown.contains("example.com"), "{shown}");
        }
        assert_eq!(SmtpReply::new(550, "5.1.1 <a@b.c>: no").text, "<address>: no");
    }

    #[test]
    fn a_reply_to_data_names_the_message_in_the_relays_words() {
        for (text, id) in [
            ("2.0.0 Ok: queued as 4Xk2J01abcz9", Some("4Xk2J01abcz9")),
            ("Ok: queued as LRzXl_NHStOGhQ4kofSm_A", Some("LRzXl_NHStOGhQ4kofSm_A")),
            ("2.0.0 Ok: Queued as 4Xk2J01abcz9.", Some("4Xk2J01abcz9")),
            (
                "Ok 0102019a2b3c4d5e-01234567-89ab-4def-8123-456789abcdef-000000",
                Some("0102019a2b3c4d5e-01234567-89ab-4def-8123-456789abcdef-000000"),
            ),
            ("OK id=1vNaBc-0000000ABCd-1Xyz", Some("1vNaBc-0000000ABCd-1Xyz")),
            (
                "2.0.0 OK 1795262399 ffacd0b85a97d-42b5f2ff7a1si1234567f8f.305 - gsmtp",
                Some("ffacd0b85a97d-42b5f2ff7a1si1234567f8f.305"),
            ),
            ("2.0.0 6ASDvILI025196 Message accepted for delivery", Some("6ASDvILI025196")),
            ("2.0.0 6968a8ef Message accepted for delivery", Some("6968a8ef")),
            ("Message Queued (01234567-89AB-4DEF-8123-456789ABCDEF.1)", Some("01234567-89AB-4DEF-8123-456789ABCDEF.1")),
            ("Ok. 000000006B0ADDBF.00006307", Some("000000006B0ADDBF.00006307")),
            ("Message queued as qxmjmtez", Some("qxmjmtez")),
            ("Great success", None),
            ("2.0.0 OK", None),
            ("queued as", None),
            ("queued as <01234567-89ab-5def-8123-456789abcdef@mail.example.com>", None),
            ("congratulations-to-everybody", None),
        ] {
            assert_eq!(SmtpReply::new(250, text).queued_as().as_deref(), id, "{text}");
        }
    }

    #[test]
    fn the_recipients_local_part_does_not_survive_in_a_reply() {
        for (text, hidden) in [
            ("User <ann.smith> unknown", "User <address> unknown"),
            ("Unknown user: Ann.Smith", "Unknown user: <address>"),
            ("joann.smith ann.smithson", "joann.smith ann.smithson"),
            ("ann.smith, ann.smith!", "<address>, <address>!"),
        ] {
            let mut reply = SmtpReply::new(550, text);
            reply.hide("ann.smith", AttemptPhase::Rcpt);
            assert_eq!(reply.text, hidden);
        }
        let mut reply = SmtpReply::new(550, "no user jürgen");
        reply.hide("Jürgen", AttemptPhase::Rcpt);
        assert_eq!(reply.text, "no user <address>");
        let mut reply = SmtpReply::new(550, "no user j\u{fffd}rgen");
        reply.hide("jürgen", AttemptPhase::Rcpt);
        assert_eq!(reply.text, "no user <address>");
        let mut reply = SmtpReply::new(550, "user unknown");
        reply.hide("unknown", AttemptPhase::Rcpt);
        assert_eq!(reply.text, "user unknown");
    }

    #[test]
    fn a_long_reply_is_cut() {
        assert_eq!(SmtpReply::new(550, &"ü".repeat(9000)).text.chars().count(), 300);
    }
}
