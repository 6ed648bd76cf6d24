//! One request of HTTP on a connection of its own.

use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow};
use tidings_answers::Document;
use tidings_gateway::api::openapi;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Sends a request to a port of this machine: request line and headers, each with its end of line, and a body. Returns the status and the
/// body of the answer.
///
/// # Errors
/// When nothing listens, or the answer breaks off in its head.
pub async fn request(port: u16, head: &str, body: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let length = body.len();
    let head = format!("{head}Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    let (_, body) = answer.split_once("\r\n\r\n").context("the answer breaks off")?;
    Ok((status, body.to_owned()))
}

/// Sends a request to the api as [`request`] does. The answer must be as the document of the api says.
///
/// # Errors
/// As [`request`], and when the document has no such answer.
pub async fn api_request(port: u16, head: &str, body: &str) -> Result<(u16, String)> {
    static DOCUMENT: LazyLock<Result<Document>> = LazyLock::new(|| Document::new(openapi::document()));
    let (status, answer) = request(port, head, body).await?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let document = DOCUMENT.as_ref().map_err(|error| anyhow!("{error:#}"))?;
    document.check(method, target, status, &answer)?;
    Ok((status, answer))
}
