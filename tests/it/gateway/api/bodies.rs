//! The memory for bodies: what is over it is refused, and nobody else notices.

use anyhow::Result;
use tidings_harness::wait::eventually;
use tidings_needs::needs;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Api, MINUTE};

/// With 40 MiB one client has 20, and a body of 1 MiB costs five times as much.
const BODIES: usize = 4;
const MIB: usize = 1 << 20;

async fn send(port: u16, request: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// The whole answer to a request.
async fn answer(port: u16, request: &str) -> Result<String> {
    let mut text = String::new();
    send(port, request).await?.read_to_string(&mut text).await?;
    Ok(text)
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_the_memory_get_503_and_pages_answer_meanwhile() -> Result<()> {
    let api = Api::start_with("after 1s", "body_mebibytes = 40\n").await?;
    let token = api.token("acme", &["events:write"]).await?;
    let post = |length: usize, body: &str| {
        format!(
            "POST /v1/events HTTP/1.1\r\nHost: t\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
    let mut half_sent = Vec::new();
    for _ in 0..BODIES {
        half_sent.push(send(api.port.number, &post(MIB, "[")).await?);
    }
    let full = eventually("the memory is taken", MINUTE, async || {
        let answer = answer(api.port.number, &post(2, "[]")).await?;
        if answer.starts_with("HTTP/1.1 503 ") {
            return Ok(Some(answer));
        }
        // A body counts for ten seconds, which a busy machine may need for the looks at the token.
        half_sent.push(send(api.port.number, &post(MIB, "[")).await?);
        Ok(None)
    });
    let full = full.await?.to_lowercase();
    assert!(full.contains("retry-after: 5") && full.contains("/problems/busy"), "{full}");
    let page = answer(api.public.number, &get("/page.css")).await?;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    let document = answer(api.port.number, &get("/openapi.json")).await?;
    assert!(document.starts_with("HTTP/1.1 200 "), "{document}");
    // No body follows, and none is waited for.
    let stranger = format!("POST /webhooks/any HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", 2 * MIB);
    let unknown = answer(api.public.number, &stranger).await?;
    assert!(unknown.starts_with("HTTP/1.1 401 "), "{unknown}");

    drop(half_sent);
    eventually("the memory is free", MINUTE, async || {
        let answer = answer(api.port.number, &post(2, "[]")).await?;
        Ok((!answer.starts_with("HTTP/1.1 503 ")).then_some(()))
    })
    .await
}
