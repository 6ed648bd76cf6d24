//! One connection to a relay: each step of a transaction within its time.

use std::{fmt, io, time::Duration};

use lettre::{
    Address,
    transport::smtp::{
        client::AsyncSmtpConnection,
        commands::{Data, Mail, Noop, Quit, Rcpt, Rset},
        extension::{Extension, MailParameter},
    },
};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, timeout},
};

use super::{
    Reply, SmtpEvent,
    failure::{Failure, within},
    shared_stream::Wire,
};
use tidings_model::attempt::Phase;

/// How long to wait for what (RFC 5321 4.5.3.2, as its minimum).
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Name look-up and TCP, over all addresses of the host; and again the TLS handshake. 30 s; ours.
    pub connect: Duration,
    /// The greeting and the answer to EHLO: 5 min.
    pub greeting: Duration,
    /// The answer to MAIL, RCPT, AUTH, STARTTLS and RSET: 5 min.
    pub command: Duration,
    /// The answer to DATA: 2 min.
    pub data: Duration,
    /// Sending each block of the content: 3 min.
    pub block: Duration,
    /// The answer after the final dot: 10 min.
    pub dot: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            greeting: Duration::from_mins(5),
            command: Duration::from_mins(5),
            data: Duration::from_mins(2),
            block: Duration::from_mins(3),
            dot: Duration::from_mins(10),
        }
    }
}

/// Time for a goodbye that nobody needs.
const QUIT: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    smtp: AsyncSmtpConnection,
    wire: Wire,
    /// The limit of RFC 1870 in bytes: 0 says none; `None` without the extension.
    pub(super) max_size: Option<u64>,
    pub(super) opened_at: Instant,
    pub(super) idle_since: Instant,
    /// Transactions so far.
    pub(super) used: u32,
    /// A transaction was refused half-way: RSET comes before the next.
    pub(super) dirty: bool,
}

impl Connection {
    pub(super) fn new(smtp: AsyncSmtpConnection, wire: Wire, max_size: Option<u64>) -> Self {
        let now = Instant::now();
        Self { smtp, wire, max_size, opened_at: now, idle_since: now, used: 0, dirty: false }
    }

    pub(super) fn is_private(&self) -> bool {
        self.wire.is_tls()
    }

    pub(super) fn speaks_utf8(&self) -> bool {
        self.smtp.server_info().supports_feature(Extension::SmtpUtfEight)
    }

    pub(super) async fn mail(
        &mut self,
        from: Option<Address>,
        parameters: Vec<MailParameter>,
        limits: &Timeouts,
    ) -> Result<(), Failure> {
        if self.dirty {
            // Whatever goes wrong here, another connection may do.
            let reset = self.command(Phase::Mail, limits.command, Rset, 2).await;
            reset.map_err(|failure| Failure { event: SmtpEvent::Lost, ..failure })?;
            self.dirty = false;
        }
        self.used += 1;
        self.command(Phase::Mail, limits.command, Mail::new(from, parameters), 2).await
    }

    pub(super) async fn rcpt(&mut self, to: Address, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Rcpt, limits.command, Rcpt::new(to, Vec::new()), 2).await
    }

    pub(super) async fn data(&mut self, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Data, limits.data, Data, 3).await
    }

    /// Sends a command and wants a reply whose first digit is `first_digit`.
    async fn command(
        &mut self,
        phase: Phase,
        limit: Duration,
        command: impl fmt::Display,
        first_digit: u16,
    ) -> Result<(), Failure> {
        let replied = self.smtp.command(command);
        let response =
            within(limit, phase, async { replied.await.map_err(|e| Failure::from_lettre(phase, &e)) }).await?;
        let code = u16::from(response.code());
        if code / 100 == first_digit {
            return Ok(());
        }
        Err(Failure::replied(phase, Reply::new(code, response.first_line().unwrap_or_default())))
    }

    /// Sends a part of the content that does not hold the final dot.
    pub(super) async fn block(&mut self, block: &[u8], limits: &Timeouts) -> Result<(), Failure> {
        let sending = async { self.wire.write_all(block).await.map_err(|e| Failure::lost(Phase::Body, &e)) };
        within(limits.block, Phase::Body, sending).await
    }

    /// Sends the part of the content that ends with the final dot, and waits for the reply. A failure is past the dot
    /// as soon as the socket took the last byte.
    pub(super) async fn last_block(&mut self, block: &[u8], limits: &Timeouts) -> Result<Reply, Failure> {
        let mut taken = 0;
        let sending = async {
            while taken < block.len() {
                match self.wire.write(&block[taken..]).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => taken += count,
                }
            }
            self.wire.flush().await
        };
        let sent = timeout(limits.block, sending).await;
        let phase = if taken == block.len() { Phase::Dot } else { Phase::Body };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failure::lost(phase, &error)),
            Err(_) => return Err(Failure::silent(phase, limits.block)),
        }
        let replied = async { self.smtp.read_response().await.map_err(|e| Failure::from_lettre(Phase::Dot, &e)) };
        let response = within(limits.dot, Phase::Dot, replied).await?;
        Ok(Reply::new(response.code().into(), response.first_line().unwrap_or_default()))
    }

    /// Asks for an answer, and for nothing else.
    pub(super) async fn noop(&mut self, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Mail, limits.command, Noop, 2).await
    }

    /// Says goodbye and closes.
    pub(super) async fn quit(mut self) {
        // The connection ends either way.
        let _ = timeout(QUIT, self.smtp.command(Quit)).await;
    }
}
