//! `tidings gateway` is killed (SIGKILL) at random instants while it receives webhooks, clicks, and choices on the page of preferences.
//! What it answered with 200 is in the database, once and whole. What it did not answer comes again, as from a provider, a mailbox or a
//! recipient, and is there once in the end.

use std::{
    collections::{BTreeMap, VecDeque},
    env, fs,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use jiff::{Timestamp, ToSpan as _};
use serde_json::json;
use tidings_gateway::webhooks::SigningSecret;
use tidings_harness::{
    cli_env::{binary, command},
    env::{sqlite, sqlite_url},
    gateway::Gateway,
    outbox::taken_message,
    port::Port,
};
use tidings_model::{Key, PreferencesLink, UnsubscribeLink, link_keys::LinkKeys};
use tidings_needs::needs;
use tidings_store::{PostgresStore, Store};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use uuid::Uuid;

use super::choices::{audit, every_field, saved, stored};

/// Rounds that end with a kill. `TIDINGS_SEEDS` makes more of them, `TIDINGS_SEED` chooses other instants.
const ROUNDS: u64 = 10;
/// Requests at once.
const CLIENTS: usize = 16;
/// Messages that the webhooks report about, so that requests wait for each other's locks.
const MESSAGES: usize = 8;
/// Answers until a kill, and milliseconds after the last of them.
const ANSWERS: u64 = 60;
const AFTER: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(30);
/// Made for this test.
const SECRET: &str = "whsec_dGlkaW5ncyB0ZXN0cyBvbmx5IG9uZQ==";
const KEYS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// A request that comes again until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Request {
    /// A webhook with one event, the `n`th.
    Event(usize),
    /// A click on the link of the `n`th user.
    Click(usize),
    /// Choices of the `n`th user, in every field of the page.
    Choice(usize),
}

/// All requests of a test.
#[derive(Default)]
struct Load {
    made: usize,
    unanswered: VecDeque<Request>,
    answered: Vec<Request>,
}

impl Load {
    /// The next request: first those that come again.
    fn next(&mut self, fresh: bool) -> Option<Request> {
        if let Some(again) = self.unanswered.pop_front() {
            return Some(again);
        }
        fresh.then(|| {
            self.made += 1;
            match self.made % 4 {
                0 => Request::Click(self.made),
                1 => Request::Choice(self.made),
                _ => Request::Event(self.made),
            }
        })
    }
}

/// The gateway's world: its folder, its database, and messages that a relay took.
struct World {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    port: Port,
    messages: Vec<Uuid>,
    begun_at: Timestamp,
}

impl World {
    async fn new(folder: tempfile::TempDir, database: &str, store: Arc<dyn Store>) -> Result<Self> {
        let port = Port::take()?;
        let config = format!(
            "database_url = \"{database}\"\nlink_keys_file = \"keys\"\n[gateway]\nlisten = \"127.0.0.1:{port}\"\n\
             public_url = \"http://localhost:{port}\"\n[relay.own]\nurl = \"smtp://127.0.0.1:1\"\n\
             webhook_secret_env = \"OWN_WEBHOOK\"\n[stream.bulk]\nrelays = [\"own\"]\n\
             [stream.transactional]\nrelays = [\"own\"]\n[mail]\nfrom = \"digest@acme.example\"\n\
             [digest.activity]\ncadence = \"after 1d\"\n[digest.alerts]\ncadence = \"after 1d\"\n",
            port = port.number
        );
        fs::write(folder.path().join("tidings.toml"), config)?;
        fs::write(folder.path().join("keys"), KEYS)?;
        let mut messages = Vec::new();
        for n in 0..MESSAGES {
            messages.push(taken_message(&*store, &format!("m{n}")).await?);
        }
        Ok(Self { folder, store, port, messages, begun_at: Timestamp::now() })
    }

    /// Starts the gateway, and waits until it listens.
    async fn start(&self) -> Result<Gateway> {
        let mut command = command(&binary()?, self.folder.path(), "127.0.0.1:1");
        command.env("OWN_WEBHOOK", SECRET);
        Gateway::start(command, self.folder.path(), &self.port).await
    }

    fn user(n: usize) -> Result<Key> {
        Ok(Key::new("acme".to_owned(), "activity".to_owned(), format!("u{n}"))?)
    }

    /// Sends a request, and returns the status.
    async fn send(&self, request: Request) -> Result<u16> {
        let bytes = match request {
            Request::Event(n) => {
                let at = self.begun_at.checked_add(i64::try_from(n)?.milliseconds())?;
                let event = json!({"kind": "opened", "message": self.messages[n / 4 % MESSAGES], "event_id": n.to_string(),
                                   "occurred_at": at});
                let (body, now) = (event.to_string(), Timestamp::now().as_second());
                let secret = SigningSecret::parse(SECRET).map_err(anyhow::Error::msg)?;
                let signature = secret.sign(&n.to_string(), now, body.as_bytes());
                format!(
                    "POST /webhooks/own HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {}\r\nwebhook-id: {n}\r\n\
                     webhook-timestamp: {now}\r\nwebhook-signature: {signature}\r\n\r\n{body}",
                    body.len()
                )
            }
            Request::Click(n) => {
                let link =
                    UnsubscribeLink::Unsubscribe { key: Self::user(n)?, message: self.messages[0], generation: 0 };
                let token = link.token(&KEYS.parse::<LinkKeys>()?).context("no token")?;
                format!(
                    "POST /u/{token} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 26\r\n\
                     Content-Type: application/x-www-form-urlencoded\r\n\r\nList-Unsubscribe=One-Click"
                )
            }
            Request::Choice(n) => {
                let link = PreferencesLink { key: Self::user(n)?, message: self.messages[0], generation: 0 };
                let (token, body) = (link.token(&KEYS.parse::<LinkKeys>()?).context("no token")?, every_field());
                format!(
                    "POST /p/{token} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: {}\r\n\
                     Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}",
                    body.len()
                )
            }
        };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port.number)).await?;
        stream.write_all(bytes.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer.split(' ').nth(1).context("no answer")?.parse()?)
    }

    /// Sends requests until the gateway is gone, or until none is left that must come again.
    async fn client(&self, load: &Mutex<Load>, fresh: bool) {
        let load = || load.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Some(request) = load().next(fresh) else { return };
            match timeout(PATIENCE, self.send(request)).await {
                Ok(Ok(200)) => load().answered.push(request),
                // A choice whose first request the database still carries out has "changed meanwhile".
                Ok(Ok(503 | 409)) => load().unanswered.push_back(request),
                answered => {
                    load().unanswered.push_back(request);
                    assert!(!matches!(answered, Ok(Ok(_))), "{request:?}: {answered:?}");
                    return;
                }
            }
        }
    }

    /// Counts each request in the database.
    async fn recorded(&self) -> Result<BTreeMap<Request, usize>> {
        let mut recorded = BTreeMap::new();
        for message in &self.messages {
            for record in self.store.delivery_events(*message).await? {
                let n = record.event_id.context("an event without its id")?.parse()?;
                *recorded.entry(Request::Event(n)).or_default() += 1;
            }
        }
        for (user, entries) in audit(&*self.store, None).await? {
            let n: usize = user.strip_prefix('u').context("an entry about nobody")?.parse()?;
            if n.is_multiple_of(4) {
                recorded.insert(Request::Click(n), entries.len());
            } else {
                ensure!(entries == saved().audit, "a choice of {user} is there in part, or twice: {entries:?}");
                recorded.insert(Request::Choice(n), 1);
            }
        }
        Ok(recorded)
    }
}

/// xorshift64*: the same seed makes the same instants.
fn roll(state: &mut u64, sides: u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
}

fn number(variable: &str, default: u64) -> Result<u64> {
    Ok(env::var(variable).map_or(Ok(default), |number| number.parse())?)
}

async fn kills(world: World) -> Result<()> {
    let (mut dice, rounds) = (number("TIDINGS_SEED", 1)?.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, ROUNDS);
    let rounds = number("TIDINGS_SEEDS", rounds)?.min(1_000);
    let load = Mutex::new(Load::default());
    let (mut cut_off, mut there) = (0, 0);
    for round in 0..rounds {
        let gateway = world.start().await?;
        let answered = || load.lock().unwrap_or_else(PoisonError::into_inner).answered.len();
        let enough = answered() + usize::try_from(1 + roll(&mut dice, ANSWERS))?;
        let after = Duration::from_millis(roll(&mut dice, AFTER));
        let kill = async {
            let begun = Instant::now();
            while answered() < enough && begun.elapsed() < PATIENCE {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(after).await;
            drop(gateway);
        };
        tokio::join!(kill, join_all((0..CLIENTS).map(|_| world.client(&load, true))));
        let recorded = world.recorded().await?;
        let load = load.lock().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<_> = load.answered.iter().filter(|request| recorded.get(request) != Some(&1)).collect();
        ensure!(lost.is_empty(), "round {round}: answered with 200, and not there once: {lost:?}");
        cut_off += load.unanswered.len();
        there += load.unanswered.iter().filter(|request| recorded.contains_key(request)).count();
    }
    let gateway = world.start().await?;
    join_all((0..CLIENTS).map(|_| world.client(&load, false))).await;
    drop(gateway);
    let load = load.into_inner().unwrap_or_else(PoisonError::into_inner);
    let recorded = world.recorded().await?;
    println!("{} requests, {cut_off} cut off, {there} of those recorded before their answer", load.made);
    ensure!(
        load.unanswered.is_empty() && load.answered.len() == load.made,
        "not every request was answered in the end"
    );
    ensure!(recorded.len() == load.made && recorded.values().all(|times| *times == 1), "not all are there once");
    for n in (1..=load.made).filter(|n| n % 4 == 1) {
        ensure!(stored(&*world.store, &World::user(n)?.user).await? == saved(), "the choices of u{n} are others");
    }
    // A kill between two requests would show nothing.
    ensure!(load.made as u64 > 10 * rounds && cut_off as u64 > rounds, "too little happened");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_loses_no_acknowledged_request_on_sqlite() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = sqlite(folder.path()).await?;
    let database = sqlite_url(folder.path());
    kills(World::new(folder, &database, store).await?).await
}

#[needs(postgres)]
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_gateway_loses_no_acknowledged_request_on_postgresql() -> Result<()> {
    let url = tidings_harness::postgres::database().await?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    kills(World::new(tempfile::tempdir()?, &url, Arc::new(store)).await?).await
}
