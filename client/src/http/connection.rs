//! The connection to the api, which stays open between requests. It follows no redirect.

use std::{io, time::Duration};

use hyper::{
    Request, StatusCode,
    body::Bytes,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER},
};
use tidings_net::{Sender, TlsConnector, connector, http, read, system_roots};
use tokio::{net::TcpStream, time::timeout};

use crate::api::Http;

/// Time limit for a connection with TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of an answer: results of 10,000 items, whose ids have at most a MiB.
const ANSWER: usize = 8 << 20;

/// The connection to the api of a gateway.
pub(super) struct Connection {
    http: Http,
    tls: Option<TlsConnector>,
    open: Option<Sender>,
}

/// An answer.
pub(super) struct Response {
    pub status: StatusCode,
    pub retry_after: Option<String>,
    pub body: Bytes,
}

impl Connection {
    /// Connects, to find out if anything answers.
    pub async fn open(http: Http) -> io::Result<Self> {
        let roots = http.is_tls.then(system_roots);
        if roots.as_ref().is_some_and(|roots| roots.is_empty()) {
            return Err(io::Error::other("the system has no CA certificates; install them"));
        }
        let tls = roots.map(connector);
        let mut connection = Self { http, tls, open: None };
        connection.open = Some(connection.connect().await?);
        Ok(connection)
    }

    /// Posts events. If the connection was closed since the last request, posts them again over a new one: an event counts once.
    pub async fn post(&mut self, body: Bytes) -> io::Result<Response> {
        if let Some(mut sender) = self.open.take()
            && let Ok(response) = self.exchange(&mut sender, body.clone()).await
        {
            self.open = Some(sender);
            return Ok(response);
        }
        let mut sender = self.connect().await?;
        let response = self.exchange(&mut sender, body).await?;
        self.open = Some(sender);
        Ok(response)
    }

    async fn connect(&self) -> io::Result<Sender> {
        let connecting = async {
            let tcp = TcpStream::connect((self.http.host.as_str(), self.http.port)).await?;
            http(tcp, self.tls.as_ref().map(|tls| (tls, self.http.host.as_str()))).await
        };
        timeout(CONNECT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn exchange(&self, sender: &mut Sender, body: Bytes) -> io::Result<Response> {
        let request = Request::post(self.http.path.as_str())
            .header(HOST, self.http.authority())
            .header(AUTHORIZATION, self.http.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body.into())
            .map_err(io::Error::other)?;
        sender.ready().await.map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        let status = response.status();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = read(response.into_body(), ANSWER).await.map_err(io::Error::other)?;
        Ok(Response { status, retry_after, body })
    }
}
