//! Messages per second of SMTP over one connection to a sink on the loopback interface.
//!
//! `./dev bench smtp [MESSAGES]`

use std::time::Instant;

use jiff::Timestamp;
use tidings_activities::mailer::{Class, Draft, Limits, Mailer, Of, Person, Timeouts};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let messages: u32 = std::env::args().nth(1).map_or(Ok(20_000), |count| count.parse())?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("smtp://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move { sink(socket).await.map_err(|e| eprintln!("sink: {e}")) });
        }
    });
    for kilobytes in [1, 8, 64] {
        let limits = Limits { connections: 1, messages: u32::MAX, ..Limits::default() };
        let mailer = Mailer::new(url.parse()?, limits, Timeouts::default())?;
        let message = message(kilobytes * 1024)?;
        let started = Instant::now();
        for _ in 0..messages {
            let ready = mailer.offer("digest@mail.example.com", "ann@example.net", &message).await;
            let delivery = ready.map_err(|delivery| delivery.detail)?.dot().await;
            if delivery.class != Class::Sent {
                return Err(delivery.detail.into());
            }
        }
        let rate = f64::from(messages) / started.elapsed().as_secs_f64();
        println!("{messages} messages of {} bytes over one connection: {rate:.0}/s", message.len());
        mailer.close().await;
    }
    Ok(())
}

fn message(html_bytes: usize) -> Result<Vec<u8>> {
    let html = "<p>Three new comments</p>\n".repeat(html_bytes / 26);
    let draft = Draft {
        from: Person { name: "Acme", address: "digest@mail.example.com" },
        to: Person { name: "Ann", address: "ann@example.net" },
        reply_to: None,
        subject: "3 new comments",
        html: Some(&html),
        text: "Three new comments\n",
        id: Uuid::from_u128(1),
        of: Of::Digest { tenant: "acme", digest_type: "activity", events: 3, list_host: "lists.example.com" },
        date: Timestamp::UNIX_EPOCH,
        message_domain: "mail.example.com",
    };
    Ok(draft.compose()?.bytes)
}

/// The least that passes for a relay.
async fn sink(socket: TcpStream) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = BufReader::new(socket);
    let mut line = Vec::new();
    let mut in_content = false;
    stream.write_all(b"220 sink\r\n").await?;
    while stream.read_until(b'\n', &mut line).await? > 0 {
        let reply: &[u8] = match (in_content, line.as_slice()) {
            (true, b".\r\n") => b"250 kept\r\n",
            (true, _) => b"",
            (false, b"DATA\r\n") => b"354 go on\r\n",
            (false, _) => b"250 ok\r\n",
        };
        in_content = reply.starts_with(b"354") || (in_content && reply.is_empty());
        if !reply.is_empty() {
            stream.write_all(reply).await?;
        }
        line.clear();
    }
    Ok(())
}
