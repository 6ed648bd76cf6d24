//! A connection to a relay, with time limits per step.
//!
//! lettre 0.11.23 is used for commands and reply parsing only. Its connection can upgrade only its own
//! socket, hides the parameters of EHLO extensions such as SIZE, and cannot send the final dot apart from the
//! content.

use std::{fmt::Display, io, pin::pin, time::Duration};

use lettre::transport::smtp::{
    commands::{Data, Mail, Noop, Quit, Rcpt, Rset},
    extension::{Extension, MailParameter, ServerInfo},
    response::Response,
};
use tidings_model::{EmailAddress, attempt::AttemptPhase};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    time::{Instant, timeout},
};
use tracing::{Instrument, debug_span};

use super::{
    classify::SmtpEvent,
    reply::{SmtpFailure, SmtpReply, with_timeout},
};
use crate::lettre_address;

/// More than any reply needs. A relay may never end its line.
const REPLY_BYTES: u64 = 64 * 1024;
/// To keep of each line. RFC 5321 4.5.3.1.5 allows 512.
const LINE_BYTES: usize = 900;

pub(super) trait RelaySocket: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> RelaySocket for S {}

pub(super) struct SmtpStream {
    stream: BufReader<Box<dyn RelaySocket>>,
    is_tls: bool,
}

impl SmtpStream {
    pub fn new(socket: impl RelaySocket + 'static, is_tls: bool) -> Self {
        Self { stream: BufReader::new(Box::new(socket)), is_tls }
    }

    /// Drops plaintext read ahead, so an attacker cannot inject replies before TLS.
    pub fn into_socket(self) -> Box<dyn RelaySocket> {
        self.stream.into_inner()
    }

    /// A refusal (4yz or 5yz) is an error.
    pub async fn command(&mut self, phase: AttemptPhase, command: impl Display) -> Result<Response, SmtpFailure> {
        let sending = async {
            self.stream.write_all(command.to_string().as_bytes()).await?;
            self.stream.flush().await
        };
        sending.await.map_err(|e| SmtpFailure::connection_lost(phase, &e))?;
        self.reply(phase).await
    }

    pub async fn reply(&mut self, phase: AttemptPhase) -> Result<Response, SmtpFailure> {
        let mut answer = (&mut self.stream).take(REPLY_BYTES);
        let (mut line, mut lines) = (Vec::new(), String::new());
        let continues = |line: &str| line.split_once('-').is_some_and(|(code, _)| code.parse::<u16>().is_ok());
        loop {
            line.clear();
            answer.read_until(b'\n', &mut line).await.map_err(|e| SmtpFailure::connection_lost(phase, &e))?;
            if answer.limit() == 0 {
                let error = io::Error::new(io::ErrorKind::InvalidData, "the relay's answer has no end");
                return Err(SmtpFailure::connection_lost(phase, &error));
            }
            if !line.ends_with(b"\n") {
                return Err(SmtpFailure::unreadable_reply(phase));
            }
            let line = normalize_line(&line);
            lines.push_str(&line);
            if !continues(&line) {
                break;
            }
        }
        let response: Response = lines.parse().map_err(|_| SmtpFailure::unreadable_reply(phase))?;
        if response.is_positive() { Ok(response) } else { Err(SmtpFailure::from_reply(phase, (&response).into())) }
    }
}

/// Normalizes a reply line for lettre's parser: the code, then the text as far as it is UTF-8, without
/// trailing blanks. If there is only a code, as RFC 5321 4.2 allows, adds a space. The text may be in any
/// encoding, but no decision should depend on it.
fn normalize_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text[..text.floor_char_boundary(LINE_BYTES)].trim_end();
    let (code, words) = text.split_at_checked(3).unwrap_or((text, ""));
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    // After a fourth digit or a letter, this is not a reply.
    let is_apart = !words.starts_with(|c: char| c == '-' || c == ' ' || c.is_ascii_alphanumeric());
    let space = if is_code && is_apart { " " } else { "" };
    format!("{code}{space}{words}\r\n")
}

/// Time limits per step. Defaults are the minimums in RFC 5321 4.5.3.2.
#[derive(Clone, Copy, Debug)]
pub struct SmtpTimeouts {
    /// Name lookup and TCP across all addresses, and again for the TLS handshake. 30 s, our own choice.
    pub connect: Duration,
    /// Greeting and reply to EHLO: 5 min.
    pub greeting: Duration,
    /// Reply to MAIL, RCPT, AUTH, STARTTLS and RSET: 5 min.
    pub command: Duration,
    /// First replies over a reused connection: 30 s, our own choice. A network may have dropped the idle
    /// connection; for a slow relay, we retry over a new one with the limits from RFC 5321.
    pub reused: Duration,
    /// Reply to DATA: 2 min.
    pub data: Duration,
    /// Sending one block of content: 3 min.
    pub block: Duration,
    /// Last block with the final dot, and the reply: 10 min.
    pub dot: Duration,
}

impl Default for SmtpTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            greeting: Duration::from_mins(5),
            command: Duration::from_mins(5),
            reused: Duration::from_secs(30),
            data: Duration::from_mins(2),
            block: Duration::from_mins(3),
            dot: Duration::from_mins(10),
        }
    }
}

impl SmtpTimeouts {
    /// Longest time between recording the dot and giving up on its reply.
    #[must_use]
    pub const fn reply_time(&self) -> Duration {
        self.dot.saturating_add(LAST_LOOK)
    }
}

/// After the dot's timeout, read what has already arrived for this long. A frozen process wakes up late, and
/// the reply may be waiting in its socket. If we missed it, the message would be ambiguous and might be sent
/// twice.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// We close the connection in any case.
const QUIT: Duration = Duration::from_secs(1);

pub(super) struct SmtpConnection {
    pub wire: SmtpStream,
    pub info: ServerInfo,
    /// Announced, in bytes (RFC 1870). 0 means no limit; `None` means no extension.
    pub max_size: Option<u64>,
    pub opened_at: Instant,
    pub idle_since: Instant,
    pub used: u32,
    /// A transaction was refused half-way, so send RSET before the next one.
    pub dirty: bool,
}

impl SmtpConnection {
    pub fn new(wire: SmtpStream, ehlo: &Response) -> Result<Self, SmtpFailure> {
        let now = Instant::now();
        let info = ServerInfo::from_response(ehlo).map_err(|_| SmtpFailure::unreadable_reply(AttemptPhase::Ehlo))?;
        let max_size = announced_size(ehlo);
        Ok(Self { wire, info, max_size, opened_at: now, idle_since: now, used: 0, dirty: false })
    }

    pub fn is_private(&self) -> bool {
        self.wire.is_tls
    }

    pub fn speaks_utf8(&self) -> bool {
        self.info.supports_feature(Extension::SmtpUtfEight)
    }

    pub async fn mail(
        &mut self,
        from: Option<&EmailAddress>,
        parameters: Vec<MailParameter>,
        limits: &SmtpTimeouts,
    ) -> Result<(), SmtpFailure> {
        let limit = if self.used == 0 { limits.command } else { limits.command.min(limits.reused) };
        if self.dirty {
            // Any failure here should lead to a new connection.
            let reset = self.command(AttemptPhase::Mail, limit, Rset, 2).await;
            reset.map_err(|failure| SmtpFailure { event: SmtpEvent::Lost, ..failure })?;
            self.dirty = false;
        }
        self.used += 1;
        self.command(AttemptPhase::Mail, limit, Mail::new(from.map(lettre_address), parameters), 2).await
    }

    pub async fn rcpt(&mut self, to: &EmailAddress, limits: &SmtpTimeouts) -> Result<(), SmtpFailure> {
        self.command(AttemptPhase::Rcpt, limits.command, Rcpt::new(lettre_address(to), Vec::new()), 2).await
    }

    pub async fn data(&mut self, limits: &SmtpTimeouts) -> Result<(), SmtpFailure> {
        self.command(AttemptPhase::Data, limits.data, Data, 3).await
    }

    async fn command(
        &mut self,
        phase: AttemptPhase,
        limit: Duration,
        command: impl Display,
        first_digit: u16,
    ) -> Result<(), SmtpFailure> {
        let response = with_timeout(limit, phase, self.wire.command(phase, command)).await?;
        if u16::from(response.code()) / 100 == first_digit {
            return Ok(());
        }
        Err(SmtpFailure::from_reply(phase, (&response).into()))
    }

    pub async fn block(&mut self, block: &[u8], limits: &SmtpTimeouts) -> Result<(), SmtpFailure> {
        let sending = async {
            self.wire.stream.write_all(block).await.map_err(|e| SmtpFailure::connection_lost(AttemptPhase::Body, &e))
        };
        with_timeout(limits.block, AttemptPhase::Body, sending).await
    }

    /// Sends the last block with the final dot and waits for the reply. Once the socket has accepted the last
    /// byte, any failure counts as past the dot.
    pub async fn last_block(&mut self, block: &[u8], limits: &SmtpTimeouts) -> Result<SmtpReply, SmtpFailure> {
        let (begun, block_limit) = (Instant::now(), limits.block.min(limits.dot));
        let mut taken = 0;
        let sending = async {
            while taken < block.len() {
                match self.wire.stream.write(&block[taken..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => taken += count,
                }
            }
            self.wire.stream.flush().await
        };
        let sent =
            timeout(block_limit, sending).instrument(debug_span!("smtp_step", phase = AttemptPhase::Body.name())).await;
        let phase = if taken == block.len() { AttemptPhase::Dot } else { AttemptPhase::Body };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(SmtpFailure::connection_lost(phase, &error)),
            Err(_) => return Err(SmtpFailure::timed_out(phase, block_limit)),
        }
        let mut replied = pin!(self.wire.reply(AttemptPhase::Dot));
        let replied = async {
            match timeout(limits.dot.saturating_sub(begun.elapsed()), replied.as_mut()).await {
                Ok(replied) => Ok(replied),
                Err(_) => timeout(LAST_LOOK, replied).await,
            }
        };
        let replied = replied.instrument(debug_span!("smtp_step", phase = AttemptPhase::Dot.name())).await;
        replied
            .unwrap_or_else(|_| Err(SmtpFailure::timed_out(AttemptPhase::Dot, limits.dot)))
            .map(|response| (&response).into())
    }

    pub async fn noop(&mut self, limits: &SmtpTimeouts) -> Result<(), SmtpFailure> {
        self.command(AttemptPhase::Mail, limits.command, Noop, 2).await
    }

    pub async fn quit(mut self) {
        let _ = timeout(QUIT, self.wire.command(AttemptPhase::Mail, Quit)).await;
    }
}

/// RFC 1870.
fn announced_size(ehlo: &Response) -> Option<u64> {
    let limit = ehlo.message().find_map(|line| {
        let (keyword, limit) = line.split_once(' ').unwrap_or((line, "0"));
        keyword.trim().eq_ignore_ascii_case("SIZE").then_some(limit)
    })?;
    Some(limit.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_trailing_blanks_and_a_bare_code_gains_a_space() {
        for (line, read) in [
            ("250-relay.test\r\n", "250-relay.test\r\n"),
            ("250-  \t\r\n", "250-\r\n"),
            ("250-\r\r\n", "250-\r\n"),
            ("250-\u{2003}\r\n", "250-\r\n"),
            ("250 \r\n", "250 \r\n"),
            ("250   \r\n", "250 \r\n"),
            ("250\r\n", "250 \r\n"),
            ("250 ok\n", "250 ok\r\n"),
            ("\r\n", "\r\n"),
            ("2500 ok\r\n", "2500 ok\r\n"),
            ("250\tok\r\n", "250 \tok\r\n"),
        ] {
            assert_eq!(normalize_line(line.as_bytes()), read, "{line:?}");
        }
    }

    #[test]
    fn words_of_any_bytes_and_length_leave_the_code() {
        for (line, read) in [
            (&b"250 2.0.0 f\xfcr alle\r\n"[..], "250 2.0.0 f\u{fffd}r alle\r\n"),
            (b"550-\xb2\xbb\xb4\xe6\xd4\xda\r\n", "550-\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\r\n"),
            (b"220\xa0relay.test\r\n", "220 \u{fffd}relay.test\r\n"),
            (b"250 \xff \r\n", "250 \u{fffd}\r\n"),
            (b"250 a\0b\r\n", "250 a\0b\r\n"),
        ] {
            assert_eq!(normalize_line(line), read, "{line:?}");
        }
        let long = normalize_line(&[&b"250-"[..], &[b' '; 2_000][..], b"\xfc\r\n"].concat());
        assert_eq!(long, "250-\r\n");
        assert!(normalize_line(&[&b"250 "[..], &[0xfc; 2_000][..], b"\r\n"].concat()).len() <= LINE_BYTES + 2);
    }

    #[test]
    fn the_size_limit_is_read_from_the_ehlo_reply() {
        for (ehlo, size) in [
            ("250-mail.example.com\r\n250-SIZE 35882577\r\n250 8BITMIME\r\n", Some(35_882_577)),
            ("250-mail.example.com\r\n250 size 0\r\n", Some(0)),
            ("250-mail.example.com\r\n250 SIZE\r\n", Some(0)),
            ("250 mail.example.com\r\n", None),
            ("250 \r\n", None),
        ] {
            assert_eq!(announced_size(&ehlo.parse().unwrap()), size, "{ehlo}");
        }
    }

    /// Reads everything a relay sends before closing.
    async fn read(sent: &str) -> Result<SmtpReply, SmtpFailure> {
        let (socket, mut relay) = tokio::io::duplex(128 * 1024);
        relay.write_all(sent.as_bytes()).await.unwrap();
        drop(relay);
        SmtpStream::new(socket, false).reply(AttemptPhase::Rcpt).await.map(|response| (&response).into())
    }

    #[tokio::test]
    async fn a_reply_is_its_lines_and_a_label_that_they_repeat_stands_once() {
        assert_eq!(read("250\r\n250 next\r\n").await.unwrap(), SmtpReply::new(250, ""));
        assert_eq!(read("250-2.1.5 one\r\n250 2.1.5 two\r\n").await.unwrap(), SmtpReply::new(250, "2.1.5 one"));
        let refused = read("550-5.1.1 no such\r\n550-5.1.10 user\r\n550 5.1.1 here\r\n").await.unwrap_err();
        assert_eq!(refused.event, SmtpEvent::Reply(SmtpReply::new(550, "5.1.1 no such 5.1.10 user here")));
        for sent in ["", "250", "250-one\r\n", "2500 ok\r\n", "nonsense\r\n", "250-a\r\n251 b\r\n"] {
            let failure = read(sent).await.unwrap_err();
            assert_eq!(failure.event, SmtpEvent::Lost, "{sent:?}");
            assert!(failure.detail.contains("not an SMTP reply"), "{sent:?}: {}", failure.detail);
        }
        let endless = read(&"250-x\r\n".repeat(10_000)).await.unwrap_err();
        assert!(endless.detail.ends_with("the relay's answer has no end"), "{}", endless.detail);
    }
}
