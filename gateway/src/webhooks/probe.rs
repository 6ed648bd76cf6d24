//! Sends test requests to a webhook route in the provider's format.

use std::{io, time::Duration};

use axum::http::{HeaderName, HeaderValue, Request, StatusCode, header::HOST};
use tidings_net::{RequestBody, http, send_request, system_roots, tls_connector};
use tokio::{net::TcpStream, time::timeout};
use url::Url;

use super::samples::Sample;
use crate::fetch::FetchError;

/// Request timeout, the same as for SNS.
const TIME: Duration = Duration::from_secs(15);

/// Posts a sample over http or https and returns the response status. Redirects are not followed.
///
/// # Errors
///
/// See [`FetchError`].
pub async fn post_sample(url: &Url, sample: &Sample) -> Result<StatusCode, FetchError> {
    timeout(TIME, send_sample(url, sample)).await.unwrap_or(Err(FetchError::Time))
}

async fn send_sample(url: &Url, sample: &Sample) -> Result<StatusCode, FetchError> {
    let invalid = |error: &dyn std::error::Error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string());
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let mut request = Request::post(url.path()).header(HOST, format!("{host}:{port}"));
    for (name, value) in &sample.headers {
        let value = HeaderValue::from_str(value).map_err(|error| invalid(&error))?;
        request = request.header(HeaderName::from_static(name), value);
    }
    let request = request.body(RequestBody::from(sample.body.clone())).map_err(|error| invalid(&error))?;
    // IPv6 addresses have brackets only in URLs.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((host, port)).await?;
    let tls = (url.scheme() != "http").then(|| tls_connector(system_roots()));
    let mut sender = http(tcp, tls.as_ref().map(|tls| (tls, host))).await?;
    Ok(send_request(&mut sender, request).await?.status())
}
