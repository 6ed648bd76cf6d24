//! Client settings, including an API's URL and token. Temporal's own variables and `temporal.toml` configure
//! its connection.

use std::{fmt, time::Duration};

use hyper::{Uri, header::HeaderValue};
use temporalio_client::errors::ClientNewError;
use tidings_model::{
    api_token::{ApiToken, WrongToken},
    foreign_text::clean_edges,
    host_name::is_this_machine,
    names,
};
use tokio::time::timeout;

use crate::{ConnectFailure, CredentialSource, connection};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The API to send events to; `None` for signals to Temporal.
    pub http: Option<HttpGateway>,
    pub task_queue: String,
    /// For one `emit`, including waits for memory and rate limits, and retries.
    pub deadline: Duration,
    /// Bytes pending or in flight; beyond them, `emit` waits. Between 64 KiB and 2 GiB.
    pub memory_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http: None,
            task_queue: names::TASK_QUEUE.to_owned(),
            deadline: Duration::from_secs(30),
            memory_bytes: 64 * 1024 * 1024,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("TEMPORAL_* environment or temporal.toml: {0}")]
    Config(String),
    #[error("Temporal at {target} {source}; {}", .source.remedy())]
    Connect { target: String, source: ConnectFailure },
    #[error("cannot connect to the gateway at {target}: {source}; check the URL")]
    Gateway { target: String, source: std::io::Error },
}

/// Connects as configured by `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*`,
/// `TEMPORAL_PROFILE` and `temporal.toml` (<https://docs.temporal.io/develop/environment-configuration>).
pub(crate) async fn connect(limit: Duration) -> Result<temporalio_client::Client, ConnectError> {
    let (connection, client) =
        connection::load(format!("tidings-client@{}", std::process::id())).map_err(ConnectError::Config)?;
    let target = connection.target.to_string();
    let failed = |source| ConnectError::Connect { target: target.clone(), source };
    let connecting = timeout(limit, connection::connect(connection, CredentialSource::Reread)).await;
    let late = |_| failed(ConnectFailure::NoAnswer(format!("within {limit:?}")));
    let connection = connecting.map_err(late)?.map_err(failed)?;
    let refused = |error: ClientNewError| failed(ConnectFailure::Options(error.to_string()));
    temporalio_client::Client::new(connection, client).map_err(refused)
}

/// Allows http to another machine, sending token and events in cleartext.
const IN_CLEAR: &str = "tls=none";
const PATH: &str = "/v1/events";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGateway {
    pub(crate) is_tls: bool,
    /// Without brackets for an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) authorization: HeaderValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongHttp {
    #[error(
        "is not the URL of a gateway's API; write for example https://tidings.acme.example, without user and query"
    )]
    Url,
    #[error(
        "uses http to another machine, so anyone on the network could read the token and the events; write https, or \
         add ?{IN_CLEAR} if you accept that"
    )]
    InClear,
    #[error("the token {0}")]
    Token(#[from] WrongToken),
}

impl HttpGateway {
    /// Parses the API's URL, without `/v1/events`, and a token with scope `events:write`. An http URL must
    /// point to this machine (this may query DNS) or end with `?tls=none`.
    ///
    /// # Errors
    /// See [`WrongHttp`].
    pub fn new(url: &str, token: &str) -> Result<Self, WrongHttp> {
        let uri: Uri = url.parse().map_err(|_| WrongHttp::Url)?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(WrongHttp::Url),
        };
        let authority = uri.authority().ok_or(WrongHttp::Url)?;
        let is_in_clear = uri.query() == Some(IN_CLEAR) && !is_tls;
        let has_more = authority.as_str().contains('@') || (uri.query().is_some() && !is_in_clear) || url.contains('#');
        if has_more || authority.host().is_empty() {
            return Err(WrongHttp::Url);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if !is_tls && !is_in_clear && !is_this_machine(&host) {
            return Err(WrongHttp::InClear);
        }
        let token: ApiToken = clean_edges(token).parse()?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", token.reveal())).map_err(|_| WrongToken)?;
        authorization.set_sensitive(true);
        Ok(Self {
            is_tls,
            host,
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            path: format!("{}{PATH}", uri.path().trim_end_matches('/')),
            authorization,
        })
    }

    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for HttpGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> String {
        ApiToken::generate().unwrap().reveal()
    }

    #[test]
    fn a_url_names_server_and_path_of_the_api() {
        for (url, server, path) in [
            ("https://tidings.acme.example", "https://tidings.acme.example:443", "/v1/events"),
            ("http://localhost:8081/", "http://localhost:8081", "/v1/events"),
            ("https://acme.example/tidings/", "https://acme.example:443", "/tidings/v1/events"),
            ("http://[::1]:8081", "http://[::1]:8081", "/v1/events"),
            ("http://10.0.0.7:8081/api?tls=none", "http://10.0.0.7:8081", "/api/v1/events"),
        ] {
            let http = HttpGateway::new(url, &token()).unwrap();
            assert_eq!((http.to_string().as_str(), http.path.as_str()), (server, path), "{url}");
        }
        for wrong in [
            "",
            "acme.example",
            "acme.example:8081",
            "ftp://acme.example",
            "https://ann:hunter2@acme.example",
            "https://acme.example/?token=hunter2",
            "https://acme.example/#events",
            "https:///v1",
            "https://acme.example?tls=none",
            "http://127.0.0.1:8081?tls=no",
        ] {
            assert_eq!(HttpGateway::new(wrong, &token()), Err(WrongHttp::Url), "{wrong:?}");
        }
    }

    #[test]
    fn the_token_is_checked_and_never_shown() {
        let token = token();
        let http = HttpGateway::new("https://acme.example", &format!("{token}\n")).unwrap();
        assert_eq!(http.authorization, format!("Bearer {token}"));
        let shown = format!("{http:?} {http}");
        assert!(!shown.contains(&token[21..40]) && !shown.contains("Bearer"), "{shown}");
        let error = HttpGateway::new("https://acme.example", &token[..90]).unwrap_err().to_string();
        assert_eq!(error, "the token is malformed; `tidings tokens create` prints a valid one");
    }

    #[test]
    fn plain_http_to_another_machine_needs_words() {
        for (url, is_refused) in [
            ("http://10.0.0.7:8081", true),
            ("http://10.0.0.7:8081?tls=none", false),
            ("https://tidings.acme.example", false),
            ("http://localhost:8081", false),
            ("http://127.0.0.2:8081", false),
            ("http://[::1]:8081", false),
        ] {
            assert_eq!(HttpGateway::new(url, &token()) == Err(WrongHttp::InClear), is_refused, "{url}");
        }
    }
}
