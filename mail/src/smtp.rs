//! Sends messages over SMTP: keeps connections to a relay, and reports the phase and class of each attempt.
//!
//! [`ConnectionSlot::offer`] stops before the final dot; only [`ReadyTransaction::send_dot`] delivers a message (rule 26). Between the
//! two, the caller must record the attempt as past the dot.
//!
//! Each step is a `tracing` span `smtp_step` at `debug`, with its phase. Open a span with relay and message
//! around [`ConnectionSlot::offer`]; [`ReadyTransaction::send_dot`] continues it.

use std::sync::Arc;

use lettre::transport::smtp::extension::{MailBodyParameter, MailParameter};
use tidings_model::{
    EmailAddress, RelayUrl,
    attempt::{AttemptClass, AttemptPhase},
    replies::ReplyRow,
};
use tracing::{Instrument, Span};

use self::{connection::SmtpConnection, pool::SmtpPool, reply::SmtpFailure};
use crate::MailError;

mod classify;
mod connect;
mod connection;
mod pool;
mod reply;
mod samples;
mod slots;

pub use self::{
    classify::{SmtpEvent, classify},
    connection::SmtpTimeouts,
    pool::{ConnectionSlot, PoolLimits},
    reply::SmtpReply,
    samples::{Follows, OUTCOMES, OutcomeRow, RowEvent},
    slots::SendLane,
};

/// Content bytes per write. Each write may take [`SmtpTimeouts::block`].
const BLOCK_BYTES: usize = 64 * 1024;
/// In bytes, without the line's end (RFC 5322 2.1.1).
const LINE_BYTES: usize = 998;
/// How often to wait for another connection if the relay refuses new ones while others work.
const REFUSED_CONNECTIONS: u32 = 5;

/// Does not contain email addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptOutcome {
    pub phase: AttemptPhase,
    /// Set if a reply ended the attempt.
    pub reply: Option<SmtpReply>,
    pub class: AttemptClass,
    pub detail: String,
}

impl From<SmtpFailure> for AttemptOutcome {
    fn from(failure: SmtpFailure) -> Self {
        let class = classify(failure.phase, &failure.event);
        let phase = failure.phase;
        match failure.event {
            SmtpEvent::Reply(reply) => {
                Self { phase, class, detail: format!("{}: {reply}", phase.name()), reply: Some(reply) }
            }
            _ => Self { phase, class, detail: format!("{}: {}", phase.name(), failure.detail), reply: None },
        }
    }
}

impl AttemptOutcome {
    #[must_use]
    pub fn refusal(&self) -> Option<&'static ReplyRow> {
        self.reply.as_ref()?.refusal(self.phase)
    }
}

#[derive(Clone)]
pub struct SmtpMailer {
    pool: Arc<SmtpPool>,
}

impl SmtpMailer {
    /// Does not connect yet.
    ///
    /// # Errors
    /// [`MailError::Trust`] if TLS is needed and there is no trusted certificate.
    pub fn new(relay: RelayUrl, limits: PoolLimits, timeouts: SmtpTimeouts) -> Result<Self, MailError> {
        let tls = connect::tls_connector(&relay)?;
        Ok(Self { pool: Arc::new(SmtpPool::new(relay, tls, limits, timeouts)) })
    }

    /// `Display` omits the credentials.
    #[must_use]
    pub fn relay(&self) -> &RelayUrl {
        &self.pool.relay
    }

    /// `None` once the mailer is closed.
    pub fn acquire_slot(&self, lane: SendLane, to: &str) -> impl Future<Output = Option<ConnectionSlot>> + use<> {
        let domain = to.rsplit_once('@').map_or_else(String::new, |(_, domain)| domain.to_owned());
        Arc::clone(&self.pool).acquire_slot(lane, domain)
    }

    /// Sends QUIT on every idle connection. Running attempts finish, but no new slots are given out.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Checks the relay without sending: connects, negotiates TLS, authenticates, and sends NOOP and QUIT.
    /// Returns `false` if `tls=opportunistic` found no TLS.
    ///
    /// # Errors
    /// The failed phase, and the reason.
    pub async fn check(&self) -> Result<bool, AttemptOutcome> {
        let (mut connection, timeouts) = (self.pool.open().await?, &self.pool.timeouts);
        connection.noop(timeouts).await?;
        let is_private = connection.is_private();
        connection.quit().await;
        Ok(is_private)
    }
}

impl ConnectionSlot {
    /// Sends a message up to the final dot: connection, MAIL, RCPT, DATA, and all content except the last
    /// block. An empty `from` is the null sender (RFC 5321).
    ///
    /// Dropping this future at any time sends nothing. If the relay closed an idle connection or accepts no
    /// more messages on it, we silently reconnect. If the relay refuses one more connection while others
    /// work, or this message stalls while others wait, it goes back to waiting for a slot.
    ///
    /// # Errors
    /// The outcome of the attempt. Never [`AttemptClass::Ambiguous`].
    pub async fn offer(mut self, from: &str, to: &str, bytes: &[u8]) -> Result<ReadyTransaction, AttemptOutcome> {
        let mail = SmtpMessage::new(from, to, bytes)?;
        let mut refused = 0;
        loop {
            match self.try_offer(&mail).await {
                Ok(Some(last)) => {
                    self.note_offered();
                    let local_part = mail.hidden_part().to_owned();
                    return Ok(ReadyTransaction { slot: self, last, local_part, span: Span::current() });
                }
                Ok(None) => {}
                Err(failure)
                    if failure.is_about_connections() && refused < REFUSED_CONNECTIONS && self.note_refused() =>
                {
                    refused += 1;
                }
                Err(failure) => {
                    if failure.leaves_the_connection_usable() {
                        self.give_back_dirty();
                    }
                    return Err(failure.with_hidden(mail.hidden_part()).into());
                }
            }
            self.wait_again().await?;
        }
    }

    /// On a reused connection, a session failure is retried once over a new one. `None` if interrupted.
    async fn try_offer(&mut self, mail: &SmtpMessage<'_>) -> Result<Option<Vec<u8>>, SmtpFailure> {
        self.connect().await?;
        match self.transact(mail).await {
            Err(failure) if self.is_reused && failure.is_about_session() => {
                self.renew().await?;
                self.transact(mail).await
            }
            transacted => transacted,
        }
    }

    async fn transact(&mut self, mail: &SmtpMessage<'_>) -> Result<Option<Vec<u8>>, SmtpFailure> {
        let (connection, timeouts, interrupted) = self.split_parts()?;
        tokio::select! {
            last = transact(connection, timeouts, mail) => last.map(Some),
            () = Self::until_interrupted(interrupted) => Ok(None),
        }
    }

    fn give_back_dirty(mut self) {
        if let Ok((connection, ..)) = self.split_parts() {
            connection.dirty = true;
            self.give_back();
        }
    }
}

/// The relay has everything but the final dot. Dropping this closes the connection, so the relay discards the
/// message.
pub struct ReadyTransaction {
    slot: ConnectionSlot,
    last: Vec<u8>,
    /// To be hidden in replies.
    local_part: String,
    /// From [`ConnectionSlot::offer`]; [`ReadyTransaction::send_dot`] continues it.
    span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WithdrawReason {
    /// A newer attempt has started, or the message has ended.
    Fenced,
    /// The workflow was cancelled, or the worker is shutting down.
    Cancelled,
    /// Could not record the attempt as past the dot.
    Unrecorded(String),
}

impl ReadyTransaction {
    /// Sends the rest with the final dot and waits for the reply. First record the attempt as past the dot.
    ///
    /// Await this to completion, at most [`SmtpTimeouts::dot`]. If the future is dropped, we cannot find out
    /// if the message was sent.
    pub async fn send_dot(self) -> AttemptOutcome {
        let span = self.span.clone();
        self.send_last_block().instrument(span).await
    }

    async fn send_last_block(mut self) -> AttemptOutcome {
        let ended = match self.slot.split_parts() {
            Ok((connection, timeouts, _)) => connection.last_block(&self.last, timeouts).await,
            Err(failure) => Err(failure),
        };
        let failure = match ended {
            Ok(mut reply) if reply.is_success() => {
                reply.hide(&self.local_part, AttemptPhase::Dot);
                self.slot.give_back();
                return AttemptOutcome {
                    phase: AttemptPhase::Done,
                    class: classify(AttemptPhase::Dot, &SmtpEvent::Reply(reply.clone())),
                    detail: reply.to_string(),
                    reply: Some(reply),
                };
            }
            Ok(reply) => SmtpFailure::new(AttemptPhase::Dot, SmtpEvent::Reply(reply), ""),
            Err(failure) => failure,
        };
        if failure.leaves_the_connection_usable() {
            self.slot.give_back();
        }
        failure.with_hidden(&self.local_part).into()
    }

    /// Closes the connection, so the relay discards the message.
    #[must_use]
    pub fn withdraw(self, why: WithdrawReason) -> AttemptOutcome {
        why.into()
    }
}

impl From<WithdrawReason> for AttemptOutcome {
    fn from(why: WithdrawReason) -> Self {
        let (class, detail) = match why {
            WithdrawReason::Fenced => (AttemptClass::Fenced, "a newer attempt has begun".to_owned()),
            WithdrawReason::Cancelled => (AttemptClass::Cancelled, "cancelled before the dot".to_owned()),
            WithdrawReason::Unrecorded(why) => (AttemptClass::Deferred, format!("cannot record the attempt: {why}")),
        };
        Self { phase: AttemptPhase::Body, reply: None, class, detail }
    }
}

struct SmtpMessage<'a> {
    from: Option<EmailAddress>,
    to: EmailAddress,
    bytes: &'a [u8],
    /// Requires SMTPUTF8 (RFC 6531).
    utf8: bool,
}

impl<'a> SmtpMessage<'a> {
    fn new(from: &str, to: &str, bytes: &'a [u8]) -> Result<Self, SmtpFailure> {
        let from = match from {
            "" => None,
            from => Some(from.parse::<EmailAddress>().map_err(|e| {
                SmtpFailure::new(AttemptPhase::Mail, SmtpEvent::BadSender, format!("the sender's address {e}"))
            })?),
        };
        let not_representable = |phase, why: String| SmtpFailure::new(phase, SmtpEvent::NotRepresentable, why);
        let to: EmailAddress =
            to.parse().map_err(|e| not_representable(AttemptPhase::Rcpt, format!("the recipient's address {e}")))?;
        let wide = |address: &EmailAddress| !address.as_str().is_ascii();
        // All parts are 7-bit, so any other byte belongs to an address in a header.
        let utf8 = !bytes.is_ascii() || wide(&to) || from.as_ref().is_some_and(wide);
        if let Some(problem) = unfit_reason(bytes, utf8) {
            return Err(not_representable(AttemptPhase::Data, format!("the message {problem}")));
        }
        Ok(Self { from, to, bytes, utf8 })
    }

    /// Without quotes. Relays may quote it alone, with or without its quotes.
    fn hidden_part(&self) -> &str {
        self.to.local_part().trim_matches('"')
    }

    fn parameters(&self, connection: &SmtpConnection) -> Result<Vec<MailParameter>, SmtpFailure> {
        let mut parameters = Vec::new();
        if let Some(limit) = connection.max_size {
            let size = self.bytes.len();
            if limit > 0 && size as u64 > limit {
                let detail = format!("the message has {size} bytes, the relay takes {limit}");
                return Err(SmtpFailure::new(AttemptPhase::Mail, SmtpEvent::OverSize, detail));
            }
            parameters.push(MailParameter::Size(size));
        }
        if self.utf8 {
            if !connection.speaks_utf8() {
                let detail = "an address is not ASCII, and the relay has no SMTPUTF8";
                return Err(SmtpFailure::new(AttemptPhase::Rcpt, SmtpEvent::NotRepresentable, detail));
            }
            parameters.push(MailParameter::SmtpUtfEight);
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        Ok(parameters)
    }
}

async fn transact(
    connection: &mut SmtpConnection,
    timeouts: &SmtpTimeouts,
    mail: &SmtpMessage<'_>,
) -> Result<Vec<u8>, SmtpFailure> {
    let parameters = mail.parameters(connection)?;
    connection.mail(mail.from.as_ref(), parameters, timeouts).await?;
    connection.rcpt(&mail.to, timeouts).await?;
    connection.data(timeouts).await?;
    let mut content = encode_data(mail.bytes);
    let last = content.split_off(content.len().saturating_sub(BLOCK_BYTES));
    for block in content.chunks(BLOCK_BYTES) {
        connection.block(block, timeouts).await?;
    }
    Ok(last)
}

/// A lone CR or LF could make a relay see the final dot too early.
fn unfit_reason(bytes: &[u8], utf8: bool) -> Option<&'static str> {
    if !utf8 && !bytes.is_ascii() {
        return Some("is not 7-bit");
    }
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\r\n") else { return Some("has a line that does not end with CR LF") };
        if line.contains(&b'\r') || line.contains(&0) {
            return Some("has a CR or NUL within a line");
        }
        if line.len() > LINE_BYTES {
            return Some("has a line of more than 998 bytes");
        }
    }
    bytes.is_empty().then_some("is empty")
}

/// Doubles leading dots and adds the final dot (RFC 5321 4.5.2).
fn encode_data(bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(bytes.len() + bytes.len() / 64 + 8);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if line.first() == Some(&b'.') {
            content.push(b'.');
        }
        content.extend_from_slice(line);
    }
    content.extend_from_slice(b".\r\n");
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_at_the_start_of_a_line_is_doubled() {
        assert_eq!(encode_data(b".\r\na.b\r\n..c\r\n"), b"..\r\na.b\r\n...c\r\n.\r\n");
    }

    #[test]
    fn content_that_smtp_cannot_carry_is_refused_before_an_attempt() {
        for (bytes, utf8, fit) in [
            (&b"a\r\n\r\nb\r\n"[..], false, true),
            (b"", false, false),
            (b"a", false, false),
            (b"a\n.\n", false, false),
            (b"a\r\n.\rb\r\n", false, false),
            (b"\0\r\n", false, false),
            ("ü\r\n".as_bytes(), false, false),
            ("ü\r\n".as_bytes(), true, true),
            (&[&[b'a'; 999][..], b"\r\n"].concat(), false, false),
        ] {
            assert_eq!(unfit_reason(bytes, utf8).is_none(), fit, "{bytes:?}");
        }
    }
}
