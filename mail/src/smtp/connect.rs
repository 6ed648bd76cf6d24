//! Opens a connection that is ready for MAIL: name look-up, socket, TLS, greeting, EHLO, AUTH.

use std::{io, path::Path, time::Duration};

use lettre::transport::smtp::{
    authentication::{self, DEFAULT_MECHANISMS, Mechanism},
    client::AsyncSmtpConnection,
    commands::{Auth, Starttls},
    extension::{ClientId, Extension},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use socket2::{SockRef, TcpKeepalive};
use tidings_model::{
    RelayUrl,
    attempt::Phase,
    relay_url::{Credentials, Secret, Tls},
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tracing::{Instrument, debug_span};

use super::{
    classify::SmtpEvent,
    connection::{Connection, Timeouts},
    failure::{Failure, within},
    tokens::Tokens,
    wire::{ReplyLines, SharedStream},
};
use crate::Error;

/// Prepares TLS for a relay. Returns `None` if the relay never uses TLS. Reads files.
pub(super) fn connector(relay: &RelayUrl) -> Result<Option<TlsConnector>, Error> {
    if relay.tls == Tls::None {
        return Ok(None);
    }
    let mut roots = tidings_net::system_roots();
    if let Some(path) = &relay.ca {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(Error::Trust("the system has none; install its CA certificates, or name a file by ca=FILE".into()));
    }
    Ok(Some(tidings_net::connector(roots)))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let unreadable = |problem: String| Error::Trust(format!("{} {problem}", path.display()));
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(format!("cannot be read: {e}")))? {
        let certificate = certificate.map_err(|e| unreadable(format!("is no PEM file: {e}")))?;
        roots.add(certificate).map_err(|e| unreadable(format!("has a certificate that is no authority's: {e}")))?;
    }
    if roots.len() == before { Err(unreadable("has no certificate in PEM".into())) } else { Ok(()) }
}

/// Opens a connection. A relay that refuses an access token is asked once more with another one.
pub(super) async fn open(
    relay: &RelayUrl,
    tls: Option<&TlsConnector>,
    tokens: &Tokens,
    limits: &Timeouts,
) -> Result<Connection, Failure> {
    match (open_once(relay, tls, tokens, limits).await, relay.token()) {
        (Err(failure), Some(source)) if failure.refuses_login() => {
            if tokens.renew(source).await.map_err(without_token)? {
                open_once(relay, tls, tokens, limits).await
            } else {
                Err(failure)
            }
        }
        (opened, _) => opened,
    }
}

async fn open_once(
    relay: &RelayUrl,
    tls: Option<&TlsConnector>,
    tokens: &Tokens,
    limits: &Timeouts,
) -> Result<Connection, Failure> {
    let wire = within(limits.connect, Phase::Connect, dial(relay, limits)).await?;
    let (mut smtp, wire) = secure(relay, tls, limits, wire).await?;
    let max_size = announced_size(&wire.heard());
    within(limits.command, Phase::Auth, log_in(relay, tokens, &mut smtp)).await?;
    Ok(Connection::new(smtp, wire, max_size))
}

/// Tries the addresses of the host in turn. Each gets an equal share of the remaining time.
async fn dial(relay: &RelayUrl, limits: &Timeouts) -> Result<SharedStream, Failure> {
    let lost =
        |error: &io::Error| Failure::new(Phase::Connect, SmtpEvent::Lost, format!("cannot reach {relay}: {error}"));
    let deadline = Instant::now() + limits.connect;
    let addresses: Vec<_> = lookup_host((relay.host.as_str(), relay.port)).await.map_err(|e| lost(&e))?.collect();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                watch(&socket).map_err(|e| lost(&e))?;
                return Ok(SharedStream::plain(socket));
            }
            Ok(Err(error)) => problem = error,
            Err(_) => problem = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(lost(&problem))
}

/// A peer that acknowledges nothing for so long is gone: half a minute, while [`Timeouts`] are for a slow one that acknowledges.
const DEAD: Duration = Duration::from_secs(30);

/// Has the kernel notice a peer that is gone, and send without delay.
fn watch(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let probes = TcpKeepalive::new().with_time(DEAD / 3).with_interval(DEAD / 6).with_retries(4);
    socket.set_tcp_keepalive(&probes)?;
    // Other systems have no such limit for data that nobody acknowledges.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(DEAD))?;
    Ok(())
}

/// Negotiates the TLS that the relay's URL asks for, and sends EHLO.
async fn secure(
    relay: &RelayUrl,
    tls: Option<&TlsConnector>,
    limits: &Timeouts,
    wire: SharedStream,
) -> Result<(AsyncSmtpConnection, SharedStream), Failure> {
    let Some(connector) = tls else { return hello(relay, limits, wire).await };
    if relay.tls == Tls::Implicit {
        let socket = handshake(relay, connector, limits, wire).await?;
        return hello(relay, limits, SharedStream::tls(socket)).await;
    }
    let (mut smtp, wire) = hello(relay, limits, wire).await?;
    if !smtp.server_info().supports_feature(Extension::StartTls) {
        if relay.tls == Tls::Opportunistic {
            return Ok((smtp, wire));
        }
        return Err(Failure::new(Phase::Tls, SmtpEvent::NoTls, "the relay does not offer STARTTLS"));
    }
    let agreed = async { smtp.command(Starttls).await.map_err(|e| Failure::from_lettre(Phase::Tls, &e)) };
    within(limits.command, Phase::Tls, agreed).await?;
    // This discards any plaintext that was read ahead, so that an attacker cannot inject replies.
    drop(smtp);
    let socket = handshake(relay, connector, limits, wire).await?;
    hello(relay, limits, SharedStream::upgraded(socket)).await
}

async fn handshake(
    relay: &RelayUrl,
    connector: &TlsConnector,
    limits: &Timeouts,
    wire: SharedStream,
) -> Result<TlsStream<SharedStream>, Failure> {
    let no_tls = |detail: String| Failure::new(Phase::Tls, SmtpEvent::NoTls, detail);
    let name = ServerName::try_from(relay.host.clone()).map_err(|e| no_tls(format!("{}: {e}", relay.host)))?;
    let refused = |error: io::Error| no_tls(format!("no TLS with {relay}: {}", explained(&error.to_string())));
    let shaken = async { connector.connect(name, wire).await.map_err(refused) };
    within(limits.connect, Phase::Tls, shaken).await
}

/// Adds a remedy to an error that rustls 0.23 names and does not explain.
fn explained(error: &str) -> String {
    if !error.contains("CaUsedAsEndEntity") {
        return error.to_owned();
    }
    format!(
        "{error}: the certificate calls itself a CA, as `openssl req -x509` makes it; make one with -addext \
         basicConstraints=critical,CA:FALSE, or sign one with that CA"
    )
}

/// Reads the greeting and sends EHLO.
async fn hello(
    relay: &RelayUrl,
    limits: &Timeouts,
    wire: SharedStream,
) -> Result<(AsyncSmtpConnection, SharedStream), Failure> {
    let name = relay.hello.clone().map_or_else(ClientId::default, ClientId::Domain);
    let greeting = AsyncSmtpConnection::connect_with_transport(Box::new(ReplyLines::new(wire.clone())), &name);
    let phase = || if wire.spoke() { Phase::Ehlo } else { Phase::Greeting };
    match timeout(limits.greeting, greeting).instrument(debug_span!("smtp_step", phase = Phase::Greeting.name())).await
    {
        Ok(Ok(smtp)) => Ok((smtp, wire)),
        Ok(Err(error)) => Err(Failure::from_lettre(phase(), &error)),
        Err(_) => Err(Failure::silent(phase(), limits.greeting)),
    }
}

async fn log_in(relay: &RelayUrl, tokens: &Tokens, smtp: &mut AsyncSmtpConnection) -> Result<(), Failure> {
    match relay.credentials.clone() {
        None => Ok(()),
        Some(Credentials { user, secret: Secret::Password(password) }) => {
            log_in_by_password(user, password, smtp).await
        }
        Some(Credentials { user, secret: Secret::Token(source) }) => {
            let token = tokens.get(&source).await.map_err(without_token)?;
            log_in_by_token(user, token, smtp).await
        }
    }
}

/// Without a token nobody can log in, as without a password.
fn without_token(problem: String) -> Failure {
    Failure::new(Phase::Auth, SmtpEvent::NoLogin, problem)
}

/// XOAUTH2, as Google and Microsoft describe it. A refusal comes as a challenge, and the reply to an empty line has its code.
async fn log_in_by_token(user: String, token: String, smtp: &mut AsyncSmtpConnection) -> Result<(), Failure> {
    let failed = |error: lettre::transport::smtp::Error| Failure::from_lettre(Phase::Auth, &error);
    let no_login = |detail: &str| Failure::new(Phase::Auth, SmtpEvent::NoLogin, detail);
    if smtp.server_info().get_auth_mechanism(&[Mechanism::Xoauth2]).is_none() {
        return Err(no_login("the relay does not offer AUTH XOAUTH2"));
    }
    let bearer = authentication::Credentials::new(user, token);
    let answer = smtp.command(Auth::new(Mechanism::Xoauth2, bearer, None).map_err(failed)?).await.map_err(failed)?;
    if answer.has_code(334) && smtp.command("\r\n").await.map_err(failed)?.has_code(334) {
        return Err(no_login("the relay does not end the login"));
    }
    Ok(())
}

async fn log_in_by_password(user: String, password: String, smtp: &mut AsyncSmtpConnection) -> Result<(), Failure> {
    if smtp.server_info().get_auth_mechanism(DEFAULT_MECHANISMS).is_none() {
        return Err(Failure::new(
            Phase::Auth,
            SmtpEvent::NoLogin,
            "the relay offers neither AUTH PLAIN nor AUTH LOGIN",
        ));
    }
    let accepted = smtp.auth(DEFAULT_MECHANISMS, &authentication::Credentials::new(user, password)).await;
    accepted.map(drop).map_err(|e| Failure::from_lettre(Phase::Auth, &e))
}

/// Reads the SIZE line of an EHLO reply (RFC 1870).
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
