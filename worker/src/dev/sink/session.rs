//! State machine for one SMTP session (RFC 5321), without a socket.

use tidings_model::EmailAddress;

/// RFC 5321 4.5.3.1.8 requires at least this many.
const MAX_RECIPIENTS: usize = 100;

/// Note that the message headers may name other people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SinkEnvelope {
    pub from: String,
    pub to: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SinkAction {
    Answer(&'static str),
    Offer,
    Receive(SinkEnvelope),
    Quit,
}

#[derive(Default)]
pub(super) struct SinkSession {
    from: Option<String>,
    to: Vec<String>,
}

impl SinkSession {
    pub fn command(&mut self, line: &str) -> SinkAction {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => self.reset(SinkAction::Offer),
            "HELO" => self.reset(SinkAction::Answer("250 tidings dev")),
            "MAIL" => SinkAction::Answer(self.mail(rest)),
            "RCPT" => SinkAction::Answer(self.recipient(rest)),
            "DATA" => self.data(),
            "RSET" => self.reset(SinkAction::Answer("250 2.0.0 forgotten")),
            "NOOP" => SinkAction::Answer("250 2.0.0 ok"),
            "VRFY" => SinkAction::Answer("252 2.5.0 every address is accepted"),
            "QUIT" => SinkAction::Quit,
            _ => SinkAction::Answer("502 5.5.1 this sink supports EHLO, MAIL, RCPT, DATA, RSET, NOOP and QUIT"),
        }
    }

    fn reset(&mut self, action: SinkAction) -> SinkAction {
        *self = Self::default();
        action
    }

    fn mail(&mut self, rest: &str) -> &'static str {
        if self.from.is_some() {
            return "503 5.5.1 one MAIL at a time";
        }
        let Some(from) = parse_path(rest, "FROM:") else { return "501 5.5.4 use MAIL FROM:<address>" };
        self.from = Some(from.to_owned());
        "250 2.1.0 ok"
    }

    fn recipient(&mut self, rest: &str) -> &'static str {
        if self.from.is_none() {
            return "503 5.5.1 MAIL comes first";
        }
        if self.to.len() == MAX_RECIPIENTS {
            return "452 4.5.3 too many recipients";
        }
        match parse_path(rest, "TO:") {
            None | Some("") => "501 5.5.4 use RCPT TO:<address>",
            Some(to) => {
                self.to.push(to.to_owned());
                "250 2.1.5 ok"
            }
        }
    }

    fn data(&mut self) -> SinkAction {
        match self.from.take() {
            Some(from) if !self.to.is_empty() => {
                SinkAction::Receive(SinkEnvelope { from, to: std::mem::take(&mut self.to) })
            }
            from => {
                self.from = from;
                SinkAction::Answer("503 5.5.1 MAIL and RCPT come first")
            }
        }
    }
}

/// Parses `FROM:<address> PARAMETERS`. Rejects control characters because they would end up in the headers of
/// the stored email.
fn parse_path<'a>(rest: &'a str, label: &str) -> Option<&'a str> {
    let after = rest.get(label.len()..).filter(|_| rest[..label.len()].eq_ignore_ascii_case(label))?;
    let (address, _parameters) = after.trim_start().strip_prefix('<')?.rsplit_once('>')?;
    let is_bare = !address.contains(|c: char| c.is_control() || c == ' ');
    (is_bare || address.parse::<EmailAddress>().is_ok()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(session: &mut SinkSession, line: &str) -> String {
        match session.command(line) {
            SinkAction::Answer(text) => text[..3].to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn data_needs_a_sender_and_a_recipient() {
        let mut session = SinkSession::default();
        assert_eq!(answer(&mut session, "DATA"), "503");
        assert_eq!(answer(&mut session, "RCPT TO:<a@b.example>"), "503");
        assert_eq!(answer(&mut session, "MAIL FROM:<>"), "250");
        assert_eq!(answer(&mut session, "DATA"), "503");
        assert_eq!(answer(&mut session, "rcpt to:<a@b.example> NOTIFY=NEVER"), "250");
        let envelope = SinkEnvelope { from: String::new(), to: vec!["a@b.example".to_owned()] };
        assert_eq!(session.command("DATA"), SinkAction::Receive(envelope));
        assert_eq!(answer(&mut session, "DATA"), "503", "the next mail needs its own envelope");
    }

    #[test]
    fn quotes_may_enclose_spaces_and_brackets() {
        let mut session = SinkSession::default();
        assert_eq!(answer(&mut session, "MAIL FROM:<a@b.example> SIZE=7"), "250");
        for to in ["\"john smith\"@b.example", "\"@\"@b.example", "\"a>b\"@b.example"] {
            assert_eq!(answer(&mut session, &format!("RCPT TO:<{to}>")), "250", "{to}");
            assert_eq!(session.to.last().map(String::as_str), Some(to));
        }
        assert_eq!(answer(&mut session, "RCPT TO:<a b@c.example>"), "501");
    }

    #[test]
    fn an_address_cannot_bring_a_header_of_its_own() {
        let mut session = SinkSession::default();
        assert_eq!(answer(&mut session, "MAIL FROM:<a\rX-Evil: 1@b.example>"), "501");
        assert_eq!(answer(&mut session, "MAIL FROM:a@b.example"), "501");
        assert_eq!(answer(&mut session, "MAIL FRÖM:<a@b.example>"), "501");
    }

    #[test]
    fn rset_forgets_the_envelope() {
        let mut session = SinkSession::default();
        assert_eq!(answer(&mut session, "MAIL FROM:<a@b.example>"), "250");
        assert_eq!(answer(&mut session, "MAIL FROM:<a@b.example>"), "503");
        assert_eq!(answer(&mut session, "RSET"), "250");
        assert_eq!(answer(&mut session, "MAIL FROM:<a@b.example>"), "250");
    }
}
