//! Requests to a route of webhooks, as a provider would send them.

use std::{io, pin::pin, time::Duration};

use axum::http::{HeaderName, HeaderValue, Request, StatusCode, header::HOST};
use http_body_util::Full;
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tidings_net as tls;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use url::Url;

use super::samples::Sample;
use crate::fetch::FetchError;

/// Time limit of a request. SNS waits as long.
const TIME: Duration = Duration::from_secs(15);

/// Posts a sample to a URL, over TLS or not, and returns the status of the answer. No redirect is followed.
///
/// # Errors
/// See [`FetchError`].
pub async fn post(url: &Url, sample: &Sample) -> Result<StatusCode, FetchError> {
    timeout(TIME, send(url, sample)).await.unwrap_or(Err(FetchError::Time))
}

async fn send(url: &Url, sample: &Sample) -> Result<StatusCode, FetchError> {
    let invalid = |error: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let mut request = Request::post(url.path()).header(HOST, format!("{host}:{port}"));
    for (name, value) in &sample.headers {
        let value = HeaderValue::from_str(value).map_err(|error| invalid(&error))?;
        request = request.header(HeaderName::from_static(name), value);
    }
    let request = request.body(Full::from(sample.body.clone())).map_err(|error| invalid(&error))?;
    // An IPv6 address has brackets in a URL only.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, port)).await?;
    if url.scheme() == "http" {
        return exchange(tcp, request).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| invalid(&error))?;
    exchange(tls::connector(tls::system_roots()).connect(name, tcp).await?, request).await
}

async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<StatusCode, FetchError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut answered = pin!(sender.send_request(request));
    let response = tokio::select! {
        biased;
        answered = &mut answered => answered,
        // A server may end the connection behind its answer.
        _ = connection => answered.await,
    };
    Ok(response?.status())
}
