//! Messages per second to a sink on the loopback interface: the protocol alone, with the record before the dot, and with
//! all that an attempt writes; over one connection and over the pool; in both stores.
//!
//! `./dev bench smtp [MESSAGES] [CONNECTIONS]`

use std::{
    env,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::Timestamp;
use tempfile::TempDir;
use tidings_activities::{
    mailer::{Class, Draft, Limits, Mailer, Of, Person, Timeouts},
    store::{AttemptEnd, Begun, Message, Origin, Postgres, Store},
};
use tidings_tests::{postgres, stage::sqlite};
use tidings_workflows::{
    MessageKey,
    contract::{Closed, Outcome},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use uuid::Uuid;

const FROM: &str = "digest@mail.example.com";
const TO: &str = "ann@example.net";
/// Of HTML, of the messages of a store.
const KILOBYTES: usize = 8;

/// What is written of an attempt while the clock runs.
#[derive(Clone, Copy)]
enum Writes {
    Nothing,
    /// That it is past the dot.
    Record,
    /// Its beginning, the record, and its end.
    Attempt,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1).map(|count| count.parse::<usize>());
    let messages = arguments.next().unwrap_or(Ok(5_000)).context("MESSAGES")?;
    let connections = arguments.next().unwrap_or(Ok(Limits::default().connections)).context("CONNECTIONS")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("smtp://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move { sink(socket).await.map_err(|e| eprintln!("sink: {e}")) });
        }
    });
    let bench = Bench { url, messages };
    for kilobytes in [1, KILOBYTES, 64] {
        for connections in [1, connections] {
            bench.run("protocol alone", connections, kilobytes, None).await?;
        }
    }
    let folder = TempDir::new()?;
    let sqlite: Arc<dyn Store> = sqlite(folder.path()).await?;
    let mut stores = vec![("SQLite", sqlite)];
    if let Some(database) = postgres::database().await? {
        let store = Postgres::connect(&database).await?;
        store.migrate().await?;
        stores.push(("PostgreSQL", Arc::new(store)));
    }
    for (name, store) in stores {
        for (what, writes) in [("the record before the dot", Writes::Record), ("all of an attempt", Writes::Attempt)] {
            for connections in [1, connections] {
                bench.run(&format!("{name}, {what}"), connections, KILOBYTES, Some((&store, writes))).await?;
            }
        }
    }
    println!("sync of one 4 KiB write: {:.2} ms", sync_milliseconds(folder.path())?);
    Ok(())
}

struct Bench {
    url: String,
    messages: usize,
}

impl Bench {
    async fn run(
        &self,
        what: &str,
        connections: usize,
        kilobytes: usize,
        store: Option<(&Arc<dyn Store>, Writes)>,
    ) -> Result<()> {
        let limits = Limits { connections, messages: u32::MAX, ..Limits::default() };
        let mailer = Mailer::new(self.url.parse()?, limits, Timeouts::default())?;
        let bytes = message(kilobytes * 1024)?;
        let mut ids = Vec::new();
        for n in 0..self.messages {
            ids.push(match store {
                Some((store, writes)) => queued(&**store, &bytes, writes, &format!("{what} {connections} {n}")).await?,
                None => Uuid::from_u128(1),
            });
        }
        let (next, started) = (AtomicUsize::new(0), Instant::now());
        let senders = (0..connections).map(async |_| {
            while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                match store {
                    Some((store, writes)) => send(&mailer, &bytes, Some(&**store), writes, *id).await?,
                    None => send(&mailer, &bytes, None, Writes::Nothing, *id).await?,
                }
            }
            anyhow::Ok(())
        });
        try_join_all(senders).await?;
        let seconds = started.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a count of messages")]
        let rate = self.messages as f64 / seconds;
        println!("{what}, {connections} connections, {} bytes: {rate:.0} messages/s", bytes.len());
        mailer.close().await;
        Ok(())
    }
}

/// Puts a message in the outbox, and begins its attempt if only the record is to be measured.
async fn queued(store: &dyn Store, bytes: &[u8], writes: Writes, key: &str) -> Result<Uuid> {
    let key = MessageKey::new("acme".to_owned(), key.to_owned())?;
    let id = key.message_id();
    let message = Message {
        id,
        origin: Origin::Single { key, user: None, content_sha256: "0".repeat(64) },
        stream: "bulk".to_owned(),
        envelope_from: FROM.to_owned(),
        envelope_to: TO.to_owned(),
        message_id: format!("{id}@mail.example.com"),
        subject: "3 new comments".to_owned(),
        bytes: bytes.to_vec(),
        template: String::new(),
        created_at: Timestamp::now(),
    };
    store.put_message(&message).await?;
    if matches!(writes, Writes::Record) {
        begin(store, id).await?;
    }
    Ok(id)
}

async fn begin(store: &dyn Store, id: Uuid) -> Result<u32> {
    match store.begin_attempt(id, "sink", Timestamp::now()).await? {
        Begun::Go { number, .. } => Ok(number),
        Begun::Closed(closed) => anyhow::bail!("it is closed: {closed:?}"),
    }
}

async fn send(mailer: &Mailer, bytes: &[u8], store: Option<&dyn Store>, writes: Writes, id: Uuid) -> Result<()> {
    let number = match (store, writes) {
        (Some(store), Writes::Attempt) => begin(store, id).await?,
        _ => 1,
    };
    let ready = mailer.offer(FROM, TO, bytes).await.map_err(|delivery| anyhow::anyhow!(delivery.detail))?;
    if let Some(store) = store {
        ensure!(store.past_the_dot(id, number, Timestamp::now()).await?, "it is fenced");
    }
    let delivery = ready.dot().await;
    ensure!(delivery.class == Class::Sent, "{}", delivery.detail);
    if let (Some(store), Writes::Attempt) = (store, writes) {
        let end = AttemptEnd {
            phase: delivery.phase.name(),
            class: delivery.class.name(),
            reply: String::new(),
            closed: Some(Closed { outcome: Outcome::Sent, why: String::new() }),
            suppress: None,
            in_a_row: 1,
            return_events: false,
        };
        store.end_attempt(id, number, &end, Timestamp::now()).await?;
    }
    Ok(())
}

/// What the disk takes to make one write durable: no store writes more often than that, one write after the other.
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
    let draft = Draft {
        from: Person { name: "Acme", address: FROM },
        to: Person { name: "Ann", address: TO },
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
