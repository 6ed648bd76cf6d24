//! One connection to a relay: opening it, and each step of a transaction within its time.

use std::{error::Error as _, future::Future, io, time::Duration};

use lettre::{
    Address,
    transport::smtp::{
        authentication::DEFAULT_MECHANISMS,
        client::AsyncSmtpConnection,
        commands::{Data, Mail, Quit, Rcpt, Rset, Starttls},
        extension::{Extension, MailParameter},
    },
};
use rustls::pki_types::ServerName;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, lookup_host},
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;

use super::{Event, Phase, Relay, Reply, Tls, wire::Wire};

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
            greeting: Duration::from_secs(5 * 60),
            command: Duration::from_secs(5 * 60),
            data: Duration::from_secs(2 * 60),
            block: Duration::from_secs(3 * 60),
            dot: Duration::from_secs(10 * 60),
        }
    }
}

/// Time for a goodbye that nobody needs.
const QUIT: Duration = Duration::from_secs(1);

/// Why a step failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) phase: Phase,
    pub(super) event: Event,
    /// In words, without addresses.
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(phase: Phase, event: Event, detail: impl Into<String>) -> Self {
        Self { phase, event, detail: detail.into() }
    }

    fn lost(phase: Phase, error: &io::Error) -> Self {
        Self::new(phase, Event::Lost, format!("the connection is lost: {error}"))
    }

    fn replied(phase: Phase, reply: Reply) -> Self {
        Self::new(phase, Event::Reply(reply), "")
    }

    /// lettre keeps a negative reply's code as the status and its text as the source.
    fn from_lettre(phase: Phase, error: &lettre::transport::smtp::Error) -> Self {
        if let Some(code) = error.status() {
            let text = error.source().map(ToString::to_string).unwrap_or_default();
            return Self::replied(phase, Reply::new(code.into(), &text));
        }
        // What a relay says that is no reply may hold anything, so it is not shown.
        let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        let detail = "the connection was closed, or what came is no SMTP reply";
        io.map_or_else(|| Self::new(phase, Event::Lost, detail), |io| Self::lost(phase, io))
    }

    /// A relay that closes idle connections says so only when we come back (421, or nothing at all).
    pub(super) fn is_stale(&self) -> bool {
        let gone = match &self.event {
            Event::Reply(reply) => reply.code == 421,
            event => *event == Event::Lost,
        };
        gone && self.phase == Phase::Mail
    }

    /// The relay refused a command and waits for the next one.
    pub(super) fn leaves_the_connection_usable(&self) -> bool {
        match &self.event {
            Event::Reply(reply) => reply.code >= 400 && reply.code != 421,
            event => matches!(event, Event::OverSize | Event::Unspeakable),
        }
    }
}

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
    pub(super) async fn open(relay: &Relay, tls: Option<&TlsConnector>, limits: &Timeouts) -> Result<Self, Failure> {
        let wire = within(limits.connect, Phase::Connect, dial(relay, limits.connect)).await?;
        let (mut smtp, wire) = secure(relay, tls, limits, wire).await?;
        let max_size = announced_size(&wire.heard());
        within(limits.command, Phase::Auth, log_in(relay, &mut smtp)).await?;
        let now = Instant::now();
        Ok(Self { smtp, wire, max_size, opened_at: now, idle_since: now, used: 0, dirty: false })
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
            reset.map_err(|failure| Failure { event: Event::Lost, ..failure })?;
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
        command: impl std::fmt::Display,
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
            Err(_) => return Err(silent(phase, limits.block)),
        }
        let replied = async { self.smtp.read_response().await.map_err(|e| Failure::from_lettre(Phase::Dot, &e)) };
        let response = within(limits.dot, Phase::Dot, replied).await?;
        Ok(Reply::new(response.code().into(), response.first_line().unwrap_or_default()))
    }

    /// Says goodbye and closes.
    pub(super) async fn quit(mut self) {
        // The connection ends either way.
        let _ = timeout(QUIT, self.smtp.command(Quit)).await;
    }
}

async fn within<T>(
    limit: Duration,
    phase: Phase,
    step: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, step).await.unwrap_or_else(|_| Err(silent(phase, limit)))
}

fn silent(phase: Phase, limit: Duration) -> Failure {
    Failure::new(phase, Event::Silent, format!("no answer within {limit:?}"))
}

/// Tries the host's addresses in turn; each gets its share of the time that is left.
async fn dial(relay: &Relay, limit: Duration) -> Result<Wire, Failure> {
    let lost = |error: &io::Error| Failure::new(Phase::Connect, Event::Lost, format!("cannot reach {relay}: {error}"));
    let deadline = Instant::now() + limit;
    let addresses: Vec<_> = lookup_host((relay.host.as_str(), relay.port)).await.map_err(|e| lost(&e))?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                socket.set_nodelay(true).map_err(|e| lost(&e))?;
                return Ok(Wire::plain(socket));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(lost(&last))
}

/// Makes the connection as private as the relay's URL says, and introduces us.
async fn secure(
    relay: &Relay,
    tls: Option<&TlsConnector>,
    limits: &Timeouts,
    wire: Wire,
) -> Result<(AsyncSmtpConnection, Wire), Failure> {
    let Some(connector) = tls else { return hello(relay, limits, wire).await };
    if relay.tls == Tls::Implicit {
        let socket = handshake(relay, connector, limits, wire).await?;
        return hello(relay, limits, Wire::tls(socket)).await;
    }
    let (mut smtp, wire) = hello(relay, limits, wire).await?;
    if !smtp.server_info().supports_feature(Extension::StartTls) {
        if relay.tls == Tls::Opportunistic {
            return Ok((smtp, wire));
        }
        return Err(Failure::new(Phase::Tls, Event::NoTls, "the relay does not offer STARTTLS"));
    }
    let agreed = async { smtp.command(Starttls).await.map_err(|e| Failure::from_lettre(Phase::Tls, &e)) };
    within(limits.command, Phase::Tls, agreed).await?;
    // With it goes what it had read ahead in the clear, so that nothing can be slipped in there.
    drop(smtp);
    let socket = handshake(relay, connector, limits, wire).await?;
    hello(relay, limits, Wire::upgraded(socket)).await
}

async fn handshake(
    relay: &Relay,
    connector: &TlsConnector,
    limits: &Timeouts,
    wire: Wire,
) -> Result<tokio_rustls::client::TlsStream<Wire>, Failure> {
    let no_tls = |detail: String| Failure::new(Phase::Tls, Event::NoTls, detail);
    let name = ServerName::try_from(relay.host.clone()).map_err(|e| no_tls(format!("{}: {e}", relay.host)))?;
    let shaken = async { connector.connect(name, wire).await.map_err(|e| no_tls(format!("no TLS with {relay}: {e}"))) };
    within(limits.connect, Phase::Tls, shaken).await
}

/// Reads the greeting and says EHLO.
async fn hello(relay: &Relay, limits: &Timeouts, wire: Wire) -> Result<(AsyncSmtpConnection, Wire), Failure> {
    let greeting = AsyncSmtpConnection::connect_with_transport(Box::new(wire.clone()), &relay.hello);
    let phase = || if wire.spoke() { Phase::Ehlo } else { Phase::Greeting };
    match timeout(limits.greeting, greeting).await {
        Ok(Ok(smtp)) => Ok((smtp, wire)),
        Ok(Err(error)) => Err(Failure::from_lettre(phase(), &error)),
        Err(_) => Err(silent(phase(), limits.greeting)),
    }
}

async fn log_in(relay: &Relay, smtp: &mut AsyncSmtpConnection) -> Result<(), Failure> {
    let Some(credentials) = &relay.credentials else { return Ok(()) };
    if smtp.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
        return Err(Failure::new(Phase::Auth, Event::NoLogin, "the relay offers neither AUTH PLAIN nor AUTH LOGIN"));
    }
    let accepted = smtp.auth(DEFAULT_MECHANISMS, credentials).await;
    accepted.map(drop).map_err(|e| Failure::from_lettre(Phase::Auth, &e))
}

/// The SIZE line of an EHLO reply (RFC 1870).
fn announced_size(ehlo: &str) -> Option<u64> {
    let line = ehlo.lines().filter_map(|line| line.get(4..)).find_map(|line| {
        let (keyword, limit) = line.split_once(' ').unwrap_or((line, "0"));
        keyword.trim().eq_ignore_ascii_case("SIZE").then_some(limit)
    })?;
    Some(line.trim().parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_limit_is_read_from_the_ehlo_reply() {
        for (ehlo, size) in [
            ("250-mail.example.com\r\n250-SIZE 35882577\r\n250 8BITMIME\r\n", Some(35_882_577)),
            ("250-mail.example.com\r\n250 size 0\r\n", Some(0)),
            ("250-mail.example.com\r\n250 SIZE\r\n", Some(0)),
            ("250 mail.example.com\r\n", None),
            ("250", None),
        ] {
            assert_eq!(announced_size(ehlo), size, "{ehlo}");
        }
    }
}
