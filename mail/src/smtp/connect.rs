//! Opens connections ready for MAIL: name lookup, socket, TLS, greeting, EHLO, AUTH. A login may use an
//! access token, which typically expires after an hour; we then read a new one from its source.

use std::{io, path::Path, process::Stdio, time::Duration};

use lettre::transport::smtp::{
    authentication::{self, DEFAULT_MECHANISMS, Mechanism},
    commands::{Auth, Ehlo, Starttls},
    extension::{ClientId, Extension},
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use socket2::{SockRef, TcpKeepalive};
use tidings_model::{
    RelayUrl,
    attempt::AttemptPhase,
    relay_url::{LoginSecret, RelayCredentials, TlsMode, TokenSource},
};
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _},
    net::{TcpStream, lookup_host},
    process::Command,
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_rustls::TlsConnector;
use tracing::{Instrument, debug_span};

use super::{
    classify::SmtpEvent,
    connection::{SmtpConnection, SmtpStream, SmtpTimeouts},
    reply::{SmtpFailure, with_timeout},
};
use crate::MailError;

/// Reads files. `None` if this relay never uses TLS.
pub(super) fn tls_connector(relay: &RelayUrl) -> Result<Option<TlsConnector>, MailError> {
    if relay.tls == TlsMode::None {
        return Ok(None);
    }
    let mut roots = tidings_net::system_roots();
    if let Some(path) = &relay.ca {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(MailError::Trust(
            "the system has none; install its CA certificates, or name a file by ca=FILE".into(),
        ));
    }
    Ok(Some(tidings_net::tls_connector(roots)))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), MailError> {
    let unreadable = |problem: String| MailError::Trust(format!("{} {problem}", path.display()));
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(format!("cannot be read: {e}")))? {
        let certificate = certificate.map_err(|e| unreadable(format!("is no PEM file: {e}")))?;
        roots.add(certificate).map_err(|e| unreadable(format!("has a certificate that is no authority's: {e}")))?;
    }
    if roots.len() == before { Err(unreadable("has no certificate in PEM".into())) } else { Ok(()) }
}

/// Retries once with a new access token if the relay rejects one.
pub(super) async fn open_connection(
    relay: &RelayUrl,
    tls: Option<&TlsConnector>,
    tokens: &TokenCache,
    limits: &SmtpTimeouts,
) -> Result<SmtpConnection, SmtpFailure> {
    match (open_once(relay, tls, tokens, limits).await, relay.token_source()) {
        (Err(failure), Some(source)) if failure.refuses_login() => {
            if tokens.renew_token(source).await.map_err(without_token)? {
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
    tokens: &TokenCache,
    limits: &SmtpTimeouts,
) -> Result<SmtpConnection, SmtpFailure> {
    let wire = with_timeout(limits.connect, AttemptPhase::Connect, dial(relay, limits)).await?;
    let mut connection = negotiate_tls(relay, tls, limits, wire).await?;
    with_timeout(limits.command, AttemptPhase::Auth, log_in(relay, tokens, &mut connection)).await?;
    Ok(connection)
}

/// Addresses share the remaining time equally.
async fn dial(relay: &RelayUrl, limits: &SmtpTimeouts) -> Result<SmtpStream, SmtpFailure> {
    let lost = |error: &io::Error| {
        SmtpFailure::new(AttemptPhase::Connect, SmtpEvent::Lost, format!("cannot reach {relay}: {error}"))
    };
    let deadline = Instant::now() + limits.connect;
    let addresses: Vec<_> = lookup_host((relay.host.as_str(), relay.port)).await.map_err(|e| lost(&e))?.collect();
    let mut problem = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                configure_socket(&socket).map_err(|e| lost(&e))?;
                return Ok(SmtpStream::new(socket, false));
            }
            Ok(Err(error)) => problem = error,
            Err(_) => problem = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(lost(&problem))
}

/// Give up on a peer that acknowledges nothing for this long. [`SmtpTimeouts`] instead apply to slow peers
/// that still acknowledge.
const DEAD: Duration = Duration::from_secs(30);

/// Lets the kernel detect dead peers, and disables Nagle's algorithm.
fn configure_socket(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let probes = TcpKeepalive::new().with_time(DEAD / 3).with_interval(DEAD / 6).with_retries(4);
    socket.set_tcp_keepalive(&probes)?;
    // Only Linux has such a limit for unacknowledged data.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(DEAD))?;
    Ok(())
}

async fn negotiate_tls(
    relay: &RelayUrl,
    tls: Option<&TlsConnector>,
    limits: &SmtpTimeouts,
    wire: SmtpStream,
) -> Result<SmtpConnection, SmtpFailure> {
    let Some(connector) = tls else { return send_ehlo(relay, limits, wire, true).await };
    if relay.tls == TlsMode::Implicit {
        return send_ehlo(relay, limits, handshake(relay, connector, limits, wire).await?, true).await;
    }
    let mut plain = send_ehlo(relay, limits, wire, true).await?;
    if !plain.info.supports_feature(Extension::StartTls) {
        if relay.tls == TlsMode::Opportunistic {
            return Ok(plain);
        }
        return Err(SmtpFailure::new(AttemptPhase::Tls, SmtpEvent::NoTls, "the relay does not offer STARTTLS"));
    }
    with_timeout(limits.command, AttemptPhase::Tls, plain.wire.command(AttemptPhase::Tls, Starttls)).await?;
    send_ehlo(relay, limits, handshake(relay, connector, limits, plain.wire).await?, false).await
}

async fn handshake(
    relay: &RelayUrl,
    connector: &TlsConnector,
    limits: &SmtpTimeouts,
    wire: SmtpStream,
) -> Result<SmtpStream, SmtpFailure> {
    let no_tls = |detail: String| SmtpFailure::new(AttemptPhase::Tls, SmtpEvent::NoTls, detail);
    let name = ServerName::try_from(relay.host.clone()).map_err(|e| no_tls(format!("{}: {e}", relay.host)))?;
    let refused = |error: io::Error| no_tls(format!("no TLS with {relay}: {}", explain_error(&error.to_string())));
    let shaken = async { connector.connect(name, wire.into_socket()).await.map_err(refused) };
    Ok(SmtpStream::new(with_timeout(limits.connect, AttemptPhase::Tls, shaken).await?, true))
}

/// rustls 0.23 does not explain these errors.
fn explain_error(error: &str) -> String {
    if !error.contains("CaUsedAsEndEntity") {
        return error.to_owned();
    }
    format!(
        "{error}: the certificate calls itself a CA, as `openssl req -x509` makes it; make one with -addext \
         basicConstraints=critical,CA:FALSE, or sign one with that CA"
    )
}

async fn send_ehlo(
    relay: &RelayUrl,
    limits: &SmtpTimeouts,
    mut wire: SmtpStream,
    reads_greeting: bool,
) -> Result<SmtpConnection, SmtpFailure> {
    let name = relay.hello.clone().map_or_else(ClientId::default, ClientId::Domain);
    let mut phase = AttemptPhase::Greeting;
    let greeting = async {
        if reads_greeting {
            wire.reply(phase).await?;
        }
        phase = AttemptPhase::Ehlo;
        wire.command(phase, Ehlo::new(name)).await
    };
    let step = debug_span!("smtp_step", phase = AttemptPhase::Greeting.name());
    match timeout(limits.greeting, greeting).instrument(step).await {
        Ok(ehlo) => SmtpConnection::new(wire, &ehlo?),
        Err(_) => Err(SmtpFailure::timed_out(phase, limits.greeting)),
    }
}

/// Like a missing password.
fn without_token(problem: String) -> SmtpFailure {
    SmtpFailure::new(AttemptPhase::Auth, SmtpEvent::NoLogin, problem)
}

/// More challenges than any mechanism uses.
const CHALLENGES: u32 = 10;

/// XOAUTH2 as documented by Google and Microsoft.
async fn log_in(relay: &RelayUrl, tokens: &TokenCache, connection: &mut SmtpConnection) -> Result<(), SmtpFailure> {
    let Some(RelayCredentials { user, secret }) = relay.credentials.clone() else { return Ok(()) };
    let no_login = |detail: &str| SmtpFailure::new(AttemptPhase::Auth, SmtpEvent::NoLogin, detail);
    let (mechanisms, secret, missing) = match secret {
        LoginSecret::Password(password) => {
            (DEFAULT_MECHANISMS, password, "the relay offers neither AUTH PLAIN nor AUTH LOGIN")
        }
        LoginSecret::Token(source) => {
            let token = tokens.get(&source).await.map_err(without_token)?;
            (&[Mechanism::Xoauth2][..], token, "the relay does not offer AUTH XOAUTH2")
        }
    };
    let mechanism = connection.info.get_auth_mechanism(mechanisms).ok_or_else(|| no_login(missing))?;
    let credentials = authentication::Credentials::new(user, secret);
    let unreadable = |_| SmtpFailure::unreadable_reply(AttemptPhase::Auth);
    let mut command = Auth::new(mechanism, credentials.clone(), None).map_err(unreadable)?.to_string();
    for _ in 0..CHALLENGES {
        let reply = connection.wire.command(AttemptPhase::Auth, &command).await?;
        if !reply.has_code(334) {
            return Ok(());
        }
        command = match mechanism {
            // With XOAUTH2, an error arrives as a challenge; the reply to an empty line has the code.
            Mechanism::Xoauth2 if command != EMPTY_LINE => EMPTY_LINE.to_owned(),
            Mechanism::Xoauth2 => return Err(no_login("the relay does not end the login")),
            _ => Auth::new_from_response(mechanism, credentials.clone(), &reply).map_err(unreadable)?.to_string(),
        };
    }
    Err(SmtpFailure::unreadable_reply(AttemptPhase::Auth))
}

const EMPTY_LINE: &str = "\r\n";

/// How long to reuse a command's token. Providers' tokens are valid for an hour.
const FRESH: Duration = Duration::from_mins(5);
/// For running the command, or reading the file from a slow disk.
const PATIENCE: Duration = Duration::from_secs(30);
const TOKEN_BYTES: usize = 16 * 1024;

/// Concurrent connections wait for the one that fetches it.
#[derive(Default)]
pub(super) struct TokenCache {
    latest: Mutex<Option<(String, Instant)>>,
}

impl TokenCache {
    /// Rereads a file each time, but reuses a command's token.
    pub async fn get(&self, source: &TokenSource) -> Result<String, String> {
        let mut latest = self.latest.lock().await;
        if let (TokenSource::Command(_), Some((token, read_at))) = (source, &*latest)
            && read_at.elapsed() < FRESH
        {
            return Ok(token.clone());
        }
        let token = read_token(source).await?;
        *latest = Some((token.clone(), Instant::now()));
        Ok(token)
    }

    /// Returns `true` if the token differs.
    pub async fn renew_token(&self, source: &TokenSource) -> Result<bool, String> {
        let mut latest = self.latest.lock().await;
        let refused = latest.take();
        let token = read_token(source).await?;
        let differs = refused.is_none_or(|(refused, _)| refused != token);
        *latest = Some((token, Instant::now()));
        Ok(differs)
    }
}

/// The error is safe to log: without output from the file or command.
async fn read_token(source: &TokenSource) -> Result<String, String> {
    let (reading, name) = match source {
        TokenSource::File(path) => {
            let reading = async {
                let file = File::open(path).await.map_err(|error| format!("cannot be opened: {error}"))?;
                token(file).await
            };
            (timeout(PATIENCE, reading).await, format!("token_file {}", path.display()))
        }
        TokenSource::Command(words) => {
            let program = words.first().map(String::as_str).unwrap_or_default();
            (timeout(PATIENCE, run(words)).await, format!("token_command {program}"))
        }
    };
    let read = reading.unwrap_or_else(|_| Err(format!("takes longer than {PATIENCE:?}")));
    read.map_err(|problem| format!("{name} {problem}"))
}

async fn run(words: &[String]) -> Result<String, String> {
    let (program, arguments) = words.split_first().ok_or("is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut running = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let output = running.stdout.take().ok_or("has no output")?;
    let token = token(output).await;
    let ended = running.wait().await.map_err(|error| format!("is lost: {error}"))?;
    if ended.success() { token } else { Err(format!("failed ({ended})")) }
}

async fn token(from: impl AsyncRead + Unpin) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(TOKEN_BYTES).unwrap_or(u64::MAX) + 1;
    from.take(limit).read_to_end(&mut bytes).await.map_err(|error| format!("cannot be read: {error}"))?;
    let text = str::from_utf8(&bytes).unwrap_or_default().trim_start_matches('\u{feff}').trim();
    if text.is_empty() || bytes.len() > TOKEN_BYTES || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("has no access token: one word, and nothing else".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell(script: String) -> TokenSource {
        TokenSource::Command(["/bin/sh", "-c", &script].map(str::to_owned).into())
    }

    #[tokio::test]
    async fn a_token_is_one_word_and_no_error_has_what_was_read() {
        for (script, expected) in [
            ("printf ' ya29.abc\\r\\n'", Ok("ya29.abc")),
            ("printf '\\357\\273\\277abc'", Ok("abc")),
            ("echo secret words", Err("has no access token")),
            ("printf 'secret\\001'", Err("has no access token")),
            ("printf '\\374secret'", Err("has no access token")),
            ("exit 0", Err("has no access token")),
            ("echo secret; echo secret >&2; exit 3", Err("failed (exit status: 3)")),
        ] {
            match (read_token(&shell(script.to_owned())).await, expected) {
                (Ok(token), Ok(expected)) => assert_eq!(token, expected, "{script}"),
                (Err(error), Err(expected)) => {
                    assert!(error.starts_with("token_command /bin/sh ") && error.contains(expected), "{error}");
                    assert!(!error.contains("secret"), "{error}");
                }
                other => panic!("{script}: {other:?}"),
            }
        }
        let long = tempfile::NamedTempFile::new().unwrap();
        fs::write(&long, "a".repeat(TOKEN_BYTES + 1)).unwrap();
        let error = read_token(&TokenSource::File(long.path().to_owned())).await.unwrap_err();
        assert!(error.starts_with("token_file /") && error.contains("has no access token"), "{error}");
        let error = read_token(&TokenSource::Command(vec!["/nonexistent/token".to_owned()])).await.unwrap_err();
        assert!(error.starts_with("token_command /nonexistent/token cannot be run"), "{error}");
    }

    #[tokio::test]
    async fn a_file_is_read_for_each_login_and_a_command_when_its_token_is_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("token");
        let (file, command) = (TokenSource::File(path.clone()), shell(format!("cat {}", path.display())));
        let (of_file, of_command) = (TokenCache::default(), TokenCache::default());
        fs::write(&path, "one\n").unwrap();
        assert_eq!((of_file.get(&file).await, of_command.get(&command).await), (Ok("one".into()), Ok("one".into())));
        assert_eq!(of_command.renew_token(&command).await, Ok(false));
        fs::write(&path, "two\n").unwrap();
        assert_eq!((of_file.get(&file).await, of_command.get(&command).await), (Ok("two".into()), Ok("one".into())));
        assert_eq!(of_command.renew_token(&command).await, Ok(true));
        assert_eq!(of_command.get(&command).await, Ok("two".into()));
    }
}
