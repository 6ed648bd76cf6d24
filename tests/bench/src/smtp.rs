//! Measures messages a second to a sink on the loopback interface: the protocol alone, with the record before the final
//! dot, and with all writes of an attempt; over one connection and over the pool; in both stores.

use std::time::Duration;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use futures::future::try_join_all;
use jiff::Timestamp;
use tempfile::TempDir;
use tidings_harness::{env::sqlite, postgres};
use tidings_mail::{
    mime::{MessageDraft, MessageKind, MessageParty, ThreadPosition},
    smtp::{PoolLimits, SendLane, SmtpMailer, SmtpTimeouts},
};
use tidings_model::{
    MessageKey,
    attempt::AttemptClass,
    records::{AttemptEnd, AttemptStart, MessageOrigin, OutboxMessage},
    settings::StreamName,
    window::{DigestOutcome, WindowEnd},
};
use tidings_store::{PostgresStore, Store};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;

use crate::{
    figure::{Figure, Target, count},
    rounds::Rounds,
    sink::Sink,
};

const FROM: &str = "digest@mail.example.com";
const TO: &str = "ann@example.net";
/// Kilobytes of HTML in the messages of a store.
const KILOBYTES: usize = 8;

/// The writes of an attempt that are measured.
#[derive(Clone, Copy)]
enum Writes {
    Nothing,
    /// The record before the final dot.
    Record,
    /// The start, the record and the end of the attempt.
    Attempt,
}

/// Messages a second to a sink: the protocol alone, with the record before the final dot, and with all writes of an
/// attempt
#[derive(Args)]
pub struct Smtp {
    /// Messages in each measurement
    #[arg(long, default_value_t = 2_000)]
    messages: usize,
    /// Connections of the pool; each figure is measured with one connection, too
    #[arg(long, default_value_t = PoolLimits::default().connections)]
    connections: usize,
}

impl Smtp {
    pub async fn run(&self, rounds: &Rounds) -> Result<Vec<Figure>> {
        let (sink, folder) = (Sink::start().await?, TempDir::new()?);
        let sqlite: Arc<dyn Store> = sqlite(folder.path()).await?;
        let mut stores = vec![("SQLite", sqlite)];
        if let Some(database) = postgres::optional_database().await? {
            let store = PostgresStore::connect(&database).await?;
            store.migrate().await?;
            stores.push(("PostgreSQL", Arc::new(store)));
        }
        let mut figures = Vec::new();
        for kilobytes in [1, KILOBYTES, 64] {
            let bytes = message(kilobytes * 1024)?;
            for connections in [1, self.connections] {
                let what = format!("the protocol alone, {connections} connections, {} bytes", bytes.len());
                let mut figure = Figure::new(what, "messages/s").against("bytes on a socket, one answer each");
                if kilobytes == 1 && connections == 1 {
                    figure = figure.target(Target::AtLeast(2_000.0));
                }
                for round in 0..rounds.count {
                    rounds.say(round, &figure.what);
                    let rate = self.rate(&sink, connections, &bytes, None, "").await?;
                    figure.push_both(rate, self.floor(connections, bytes.len()).await?);
                }
                figures.push(figure);
            }
        }
        let bytes = message(KILOBYTES * 1024)?;
        for (name, store) in &stores {
            for (what, writes) in
                [("the record before the dot", Writes::Record), ("all of an attempt", Writes::Attempt)]
            {
                for connections in [1, self.connections] {
                    let what = format!("{name}, {what}, {connections} connections, {} bytes", bytes.len());
                    let mut figure = Figure::new(what.clone(), "messages/s").against("the protocol alone");
                    for round in 0..rounds.count {
                        rounds.say(round, &figure.what);
                        let alone = self.rate(&sink, connections, &bytes, None, "").await?;
                        let key = format!("{what} {round}");
                        let rate = self.rate(&sink, connections, &bytes, Some((store, writes)), &key).await?;
                        figure.push_both(rate, alone);
                    }
                    figures.push(figure);
                }
            }
        }
        let mut sync = Figure::new("the disk makes 4 KiB durable", "ms");
        sync.push(sync_milliseconds(folder.path())?);
        figures.push(sync);
        Ok(figures)
    }

    /// Messages a second.
    async fn rate(
        &self,
        sink: &Sink,
        connections: usize,
        bytes: &[u8],
        store: Option<(&Arc<dyn Store>, Writes)>,
        key: &str,
    ) -> Result<f64> {
        let limits = PoolLimits { connections, messages: u32::MAX, ..PoolLimits::default() };
        let mailer = SmtpMailer::new(sink.url.parse()?, limits, SmtpTimeouts::default())?;
        let mut ids = Vec::new();
        for n in 0..self.messages {
            ids.push(match store {
                Some((store, writes)) => queued(&**store, bytes, writes, &format!("{key} {n}")).await?,
                None => Uuid::from_u128(1),
            });
        }
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        let senders = (0..connections).map(async |_| {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                match store {
                    Some((store, writes)) => send(&mailer, bytes, Some(&**store), writes, *id).await?,
                    None => send(&mailer, bytes, None, Writes::Nothing, *id).await?,
                }
            }
            anyhow::Ok(())
        });
        try_join_all(senders).await?;
        let rate = count(self.messages) / started.elapsed().as_secs_f64();
        mailer.close().await;
        Ok(rate)
    }

    /// Measures the limit of the sockets: the same number of bytes and replies as a message, without SMTP.
    async fn floor(&self, connections: usize, bytes: usize) -> Result<f64> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(answer(socket, bytes));
            }
        });
        let (left, started) = (AtomicUsize::new(self.messages), Instant::now());
        let senders = (0..connections).map(async |_| {
            let mut socket = TcpStream::connect(address).await?;
            socket.set_nodelay(true)?;
            let (content, mut reply) = (vec![b'x'; bytes], [0; REPLY]);
            while left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                for length in [COMMAND, COMMAND, COMMAND, bytes] {
                    socket.write_all(&content[..length]).await?;
                    socket.read_exact(&mut reply).await?;
                }
            }
            anyhow::Ok(())
        });
        try_join_all(senders).await?;
        Ok(count(self.messages) / started.elapsed().as_secs_f64())
    }
}

/// Bytes of a command and of a reply, in the measurement of the sockets alone.
const COMMAND: usize = 32;
const REPLY: usize = 8;

/// Replies to three commands and a content, repeatedly.
async fn answer(mut socket: TcpStream, bytes: usize) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut content = vec![0; bytes];
    loop {
        for length in [COMMAND, COMMAND, COMMAND, bytes] {
            socket.read_exact(&mut content[..length]).await?;
            socket.write_all(&[0; REPLY]).await?;
        }
    }
}

/// Puts a message into the outbox, and starts its attempt if only the record is measured.
async fn queued(store: &dyn Store, bytes: &[u8], writes: Writes, key: &str) -> Result<Uuid> {
    let key = MessageKey::new("acme".to_owned(), key.to_owned())?;
    let id = key.message_id();
    let message = OutboxMessage {
        id,
        origin: MessageOrigin::Single { key, user: None, content_sha256: "0".repeat(64) },
        stream: StreamName::Bulk,
        envelope_from: FROM.to_owned(),
        envelope_to: TO.to_owned(),
        message_id: format!("{id}@mail.example.com"),
        subject: "3 new comments".to_owned(),
        bytes: bytes.to_vec(),
        template: String::new(),
        counted: false,
        made_from: String::new(),
        thread: None,
        made_at: Timestamp::now(),
    };
    store.put_message(&message, None).await?;
    if matches!(writes, Writes::Record) {
        begin(store, id).await?;
    }
    Ok(id)
}

async fn begin(store: &dyn Store, id: Uuid) -> Result<u32> {
    match store.begin_attempt(id, "sink", Duration::ZERO, Timestamp::now()).await? {
        AttemptStart::Proceed { number, .. } => Ok(number),
        AttemptStart::AwaitsReply { .. } => anyhow::bail!("it awaits a reply"),
        AttemptStart::Closed(closed) => anyhow::bail!("it is closed: {closed:?}"),
    }
}

async fn send(mailer: &SmtpMailer, bytes: &[u8], store: Option<&dyn Store>, writes: Writes, id: Uuid) -> Result<()> {
    let number = match (store, writes) {
        (Some(store), Writes::Attempt) => begin(store, id).await?,
        _ => 1,
    };
    let slot = mailer.acquire_slot(SendLane::Digests, TO).await.context("the mailer is closed")?;
    let ready = slot.offer(FROM, TO, bytes).await.map_err(|delivery| anyhow::anyhow!(delivery.detail))?;
    if let Some(store) = store {
        ensure!(store.mark_in_doubt(id, number, Timestamp::now()).await?, "it is fenced");
    }
    let delivery = ready.send_dot().await;
    ensure!(delivery.class == AttemptClass::Sent, "{}", delivery.detail);
    if let (Some(store), Writes::Attempt) = (store, writes) {
        let end = AttemptEnd {
            phase: delivery.phase,
            class: delivery.class,
            reply: String::new(),
            relay_id: None,
            closed: Some(WindowEnd { outcome: DigestOutcome::Sent, why: String::new() }),
            suppress: None,
            consecutive: 1,
            return_events: false,
        };
        store.end_attempt(id, number, &end, Timestamp::now()).await?;
    }
    Ok(())
}

/// Measures the time of one durable write. No store writes more often than that, one write after the other.
fn sync_milliseconds(folder: &Path) -> Result<f64> {
    use std::io::Write;
    const SYNCS: u32 = 200;
    let mut file = std::fs::File::create(folder.join("sync"))?;
    let started = Instant::now();
    for _ in 0..SYNCS {
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
    }
    Ok(started.elapsed().as_secs_f64() * 1000.0 / f64::from(SYNCS))
}

fn message(html_bytes: usize) -> Result<Vec<u8>> {
    let html = "<p>Three new comments</p>\n".repeat(html_bytes / 26);
    let draft = MessageDraft {
        from: MessageParty { name: "Acme", address: &FROM.parse()? },
        to: MessageParty { name: "Ann", address: &TO.parse()? },
        reply_to: None,
        subject: "3 new comments",
        html: Some(&html),
        text: "Three new comments\n",
        id: Uuid::from_u128(1),
        of: MessageKind::Digest {
            tenant: "acme",
            digest_type: "activity",
            events: 3,
            list_host: "lists.example.com",
            threading: ThreadPosition::Alone,
        },
        date: Timestamp::UNIX_EPOCH,
        message_domain: "mail.example.com",
        unsubscribe: None,
        token: None,
        attachments: &[],
    };
    Ok(draft.compose()?.bytes)
}
