//! The least that passes for a relay, so that it costs next to nothing. It counts.

use std::sync::Arc;

use anyhow::Result;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A sink that listens. It stops with its handle.
pub struct Sink {
    pub url: String,
    accepted: Arc<watch::Sender<usize>>,
    listening: JoinHandle<()>,
}

impl Sink {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("smtp://{}", listener.local_addr()?);
        let accepted = Arc::new(watch::Sender::new(0));
        let count = Arc::clone(&accepted);
        let listening = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // A client that goes away in the middle is no concern of the sink.
                tokio::spawn(serve(socket, Arc::clone(&count)));
            }
        });
        Ok(Self { url, accepted, listening })
    }

    /// How many mails are accepted.
    pub fn accepted(&self) -> watch::Receiver<usize> {
        self.accepted.subscribe()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(socket: TcpStream, accepted: Arc<watch::Sender<usize>>) -> std::io::Result<()> {
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
        if in_content && !reply.is_empty() {
            accepted.send_modify(|count| *count += 1);
        }
        in_content = reply.starts_with(b"354") || (in_content && reply.is_empty());
        if !reply.is_empty() {
            stream.write_all(reply).await?;
        }
        line.clear();
    }
    Ok(())
}
