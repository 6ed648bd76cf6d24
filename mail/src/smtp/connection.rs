//! One connection to a relay. Each step of a transaction has a time limit.

use std::{fmt, io, pin::pin, time::Duration};

use lettre::transport::smtp::{
    client::AsyncSmtpConnection,
    commands::{Data, Mail, Noop, Quit, Rcpt, Rset},
    extension::{Extension, MailParameter},
};
use tidings_model::{EmailAddress, attempt::Phase};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, timeout},
};
use tracing::{Instrument, debug_span};

use super::{
    classify::SmtpEvent,
    failure::{Failure, within},
    reply::Reply,
    wire::SharedStream,
};
use crate::address::checked;

/// Time limits of the steps. The defaults are the minimums of RFC 5321 4.5.3.2.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Name look-up and TCP over all addresses of the host, and once more the TLS handshake. 30 s, our own choice.
    pub connect: Duration,
    /// The greeting and the reply to EHLO: 5 min.
    pub greeting: Duration,
    /// The reply to MAIL, RCPT, AUTH, STARTTLS and RSET: 5 min.
    pub command: Duration,
    /// The first replies over a connection that was idle: 30 s, our own choice. A network may have forgotten the connection, and a slow
    /// relay is asked again over a new one, with the time of RFC 5321.
    pub reused: Duration,
    /// The reply to DATA: 2 min.
    pub data: Duration,
    /// Sending each block of the content: 3 min.
    pub block: Duration,
    /// The last block with the final dot, and the reply to it: 10 min.
    pub dot: Duration,
}

impl Default for Timeouts {
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

impl Timeouts {
    /// The longest time from the record of the dot to the end of the wait for its reply.
    #[must_use]
    pub const fn reply_time(&self) -> Duration {
        self.dot.saturating_add(LAST_LOOK)
    }
}

/// When the time for the reply to the dot is over, what has arrived is read for this long. A process that was frozen wakes up late, and the
/// reply may lie in its socket. Without it the message counts as ambiguous, and may be sent a second time.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// Time limit of QUIT. The connection closes in either case.
const QUIT: Duration = Duration::from_secs(1);

pub(super) struct Connection {
    smtp: AsyncSmtpConnection,
    wire: SharedStream,
    /// The announced limit (RFC 1870) in bytes. 0 means no limit; `None` means no extension.
    pub(super) max_size: Option<u64>,
    pub(super) opened_at: Instant,
    pub(super) idle_since: Instant,
    /// Transactions so far.
    pub(super) used: u32,
    /// A transaction was refused half-way. RSET precedes the next one.
    pub(super) dirty: bool,
}

impl Connection {
    pub(super) fn new(smtp: AsyncSmtpConnection, wire: SharedStream, max_size: Option<u64>) -> Self {
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
        from: Option<&EmailAddress>,
        parameters: Vec<MailParameter>,
        limits: &Timeouts,
    ) -> Result<(), Failure> {
        let limit = if self.used == 0 { limits.command } else { limits.command.min(limits.reused) };
        if self.dirty {
            // Any failure here allows another connection.
            let reset = self.command(Phase::Mail, limit, Rset, 2).await;
            reset.map_err(|failure| Failure { event: SmtpEvent::Lost, ..failure })?;
            self.dirty = false;
        }
        self.used += 1;
        self.command(Phase::Mail, limit, Mail::new(from.map(checked), parameters), 2).await
    }

    pub(super) async fn rcpt(&mut self, to: &EmailAddress, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Rcpt, limits.command, Rcpt::new(checked(to), Vec::new()), 2).await
    }

    pub(super) async fn data(&mut self, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Data, limits.data, Data, 3).await
    }

    /// Sends a command and expects a reply whose first digit is `first_digit`.
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

    /// Sends a part of the content without the final dot.
    pub(super) async fn block(&mut self, block: &[u8], limits: &Timeouts) -> Result<(), Failure> {
        let sending = async { self.wire.write_all(block).await.map_err(|e| Failure::lost(Phase::Body, &e)) };
        within(limits.block, Phase::Body, sending).await
    }

    /// Sends the last part of the content, with the final dot, and waits for the reply. A failure is past the dot as soon as
    /// the socket has accepted the last byte.
    pub(super) async fn last_block(&mut self, block: &[u8], limits: &Timeouts) -> Result<Reply, Failure> {
        let (begun, block_limit) = (Instant::now(), limits.block.min(limits.dot));
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
        let sent = timeout(block_limit, sending).instrument(debug_span!("smtp_step", phase = Phase::Body.name())).await;
        let phase = if taken == block.len() { Phase::Dot } else { Phase::Body };
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failure::lost(phase, &error)),
            Err(_) => return Err(Failure::silent(phase, block_limit)),
        }
        let mut replied =
            pin!(async { self.smtp.read_response().await.map_err(|e| Failure::from_lettre(Phase::Dot, &e)) });
        let replied = async {
            match timeout(limits.dot.saturating_sub(begun.elapsed()), replied.as_mut()).await {
                Ok(replied) => Ok(replied),
                Err(_) => timeout(LAST_LOOK, replied).await,
            }
        };
        let replied = replied.instrument(debug_span!("smtp_step", phase = Phase::Dot.name())).await;
        let response = replied.unwrap_or_else(|_| Err(Failure::silent(Phase::Dot, limits.dot)))?;
        Ok(Reply::new(response.code().into(), response.first_line().unwrap_or_default()))
    }

    /// Sends NOOP.
    pub(super) async fn noop(&mut self, limits: &Timeouts) -> Result<(), Failure> {
        self.command(Phase::Mail, limits.command, Noop, 2).await
    }

    /// Sends QUIT and closes.
    pub(super) async fn quit(mut self) {
        // The connection closes in either case.
        let _ = timeout(QUIT, self.smtp.command(Quit)).await;
    }
}
