//! The smallest possible relay, which costs almost no CPU. It counts emails and records when each came.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use jiff::Timestamp;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};
use uuid::Uuid;

/// The beginning of the header that identifies an email.
const MESSAGE_ID: &[u8] = b"Message-ID: <";
/// Bytes of a UUID in its hyphenated form.
const UUID: usize = 36;

/// An accepted email.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The id of the digest or message, or nil if the Message-ID has none.
    pub id: Uuid,
    /// The time at which its last line had come.
    pub at: Timestamp,
}

#[derive(Default)]
struct Kept {
    mails: Mutex<Vec<Mail>>,
    count: watch::Sender<usize>,
}

/// A sink that listens. It stops with its handle.
pub struct Sink {
    pub url: String,
    kept: Arc<Kept>,
    listening: JoinHandle<()>,
}

impl Sink {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("smtp://{}", listener.local_addr()?);
        let kept = Arc::<Kept>::default();
        let keep = Arc::clone(&kept);
        let listening = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // A client that leaves within a conversation is not an error of the sink.
                tokio::spawn(serve(socket, Arc::clone(&keep)));
            }
        });
        Ok(Self { url, kept, listening })
    }

    /// The number of accepted emails.
    pub fn accepted(&self) -> watch::Receiver<usize> {
        self.kept.count.subscribe()
    }

    /// All accepted emails, in order.
    pub fn mails(&self) -> Vec<Mail> {
        self.kept.mails.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Kept {
    fn keep(&self, id: Uuid) {
        self.mails.lock().unwrap_or_else(PoisonError::into_inner).push(Mail { id, at: Timestamp::now() });
        self.count.send_modify(|count| *count += 1);
    }
}

async fn serve(socket: TcpStream, kept: Arc<Kept>) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = BufReader::new(socket);
    let mut line = Vec::new();
    let (mut in_content, mut id) = (false, Uuid::nil());
    stream.write_all(b"220 sink\r\n").await?;
    while stream.read_until(b'\n', &mut line).await? > 0 {
        let reply: &[u8] = match (in_content, line.as_slice()) {
            (true, b".\r\n") => b"250 kept\r\n",
            (true, _) => b"",
            (false, b"DATA\r\n") => b"354 go on\r\n",
            (false, _) => b"250 ok\r\n",
        };
        if in_content {
            if let Some(name) = line.strip_prefix(MESSAGE_ID).and_then(|rest| rest.get(..UUID)) {
                id = Uuid::try_parse_ascii(name).unwrap_or_default();
            }
            if !reply.is_empty() {
                kept.keep(id);
            }
        }
        in_content = reply.starts_with(b"354") || (in_content && reply.is_empty());
        if !reply.is_empty() {
            stream.write_all(reply).await?;
        }
        line.clear();
    }
    Ok(())
}
