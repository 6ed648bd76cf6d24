//! Producers: processes of `tidings emit`, `retract` and `send`, which are killed and repeated.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tidings_harness::process::signal;
use tokio::{sync::Semaphore, time::sleep};

use super::{
    files::{Files, TEXT},
    gateway::Requests,
    plan::{Event, Plan},
    tidings::Tidings,
};

/// Producers that run at the same time.
const PRODUCERS: usize = 4;
/// One in this number of events is twice in its batch.
const TWICE: u32 = 20;
/// One in this number of batches goes through the gateway.
const POSTED: usize = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// The producers of a run.
pub struct Producers {
    plan: Arc<Plan>,
    tidings: Tidings,
    /// The way through the gateway, if there is one.
    requests: Option<Requests>,
    files: Files,
    gate: Semaphore,
    /// Places of producers that post, which need no Temporal.
    posting: Semaphore,
    /// The fate of the next producer: SIGKILL, and `true` if another producer takes over.
    doom: Mutex<Option<bool>>,
    tries: AtomicU64,
    /// Producers that were killed.
    pub killed: AtomicU64,
}

impl Producers {
    /// Producers of a plan.
    #[must_use]
    pub fn new(plan: Arc<Plan>, tidings: Tidings, requests: Option<Requests>, files: Files) -> Self {
        let [gate, posting] = [PRODUCERS; 2].map(Semaphore::new);
        Self {
            plan,
            tidings,
            requests,
            files,
            gate,
            posting,
            doom: Mutex::default(),
            tries: AtomicU64::new(0),
            killed: AtomicU64::new(0),
        }
    }

    /// Kills the next producer that begins.
    pub fn doom(&self, again: bool) {
        *self.doom.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
    }

    /// Lets no producer begin. A machine that is too slow for the load hands over fewer events.
    pub fn close(&self) {
        self.gate.close();
        self.posting.close();
    }

    /// Hands over a batch, repeatedly until every event is accepted. Answers `false` if it is too late to begin.
    ///
    /// # Errors
    /// When `tidings emit` ends with an error that another try cannot fix.
    pub async fn emit(&self, batch: usize) -> Result<bool> {
        if batch.is_multiple_of(POSTED) && self.requests.is_some() {
            return self.post(batch).await;
        }
        let Ok(_turn) = self.gate.acquire().await else { return Ok(false) };
        let path = self.written(batch)?;
        loop {
            let number = self.tries.fetch_add(1, Ordering::Relaxed);
            let acknowledged = self.files.path(&format!("acknowledged/{batch}-{number}.ndjson"));
            let arguments = ["emit", "--acknowledged", &acknowledged.to_string_lossy(), &path.to_string_lossy()];
            let mut command = self.tidings.command(&arguments.map(str::to_owned));
            let log = fs::File::create(self.files.path(&format!("acknowledged/{batch}-{number}.log")))?;
            let mut child = command.stdout(log.try_clone()?).stderr(log).spawn()?;
            let doom = self.doom.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some(_), Some(pid)) = (doom, child.id()) {
                // The kill comes amid the events, before all of them are reported.
                sleep(PAUSE.mul_f64(f64::from(u32::try_from(batch % 10).unwrap_or(0)) / 10.0)).await;
                if signal(pid, "KILL").is_ok() {
                    self.killed.fetch_add(1, Ordering::Relaxed);
                }
            }
            let status = child.wait().await?;
            if status.success() || doom == Some(false) {
                return Ok(true);
            }
            if doom.is_none() && status.code() != Some(1) {
                bail!("tidings emit of batch {batch} ended with {status}");
            }
            sleep(PAUSE).await;
        }
    }

    /// Posts a batch, repeatedly until it is acknowledged. An erasure takes the person's events from the inbox, too, so that the checker
    /// does not hear of those. Answers `false` without a gateway, and if it is too late to begin.
    ///
    /// # Errors
    /// When the gateway refuses an event, or the files cannot be written.
    pub async fn post(&self, batch: usize) -> Result<bool> {
        let (Some(requests), Ok(_turn)) = (&self.requests, self.posting.acquire().await) else { return Ok(false) };
        let lines = fs::read_to_string(self.written(batch)?)?;
        while !requests.emit(&lines).await? {
            sleep(PAUSE).await;
        }
        let user = format!("\"user\":\"{}\"", self.plan.erased());
        let kept: String = lines.split_inclusive('\n').filter(|line| !line.contains(&user)).collect();
        fs::write(self.files.path(&format!("acknowledged/{batch}-posted.ndjson")), kept)?;
        Ok(true)
    }

    /// The file of a batch.
    fn written(&self, batch: usize) -> Result<PathBuf> {
        let path = self.files.path(&format!("batches/{batch}.ndjson"));
        if !path.exists() {
            fs::write(&path, self.lines(batch))?;
        }
        Ok(path)
    }

    fn lines(&self, batch: usize) -> String {
        let numbers = self.plan.batches[batch].clone();
        // Before each retract: what occurs after its retract is new.
        let occurred_at = Timestamp::now() - SignedDuration::from_hours(24);
        let line = |number: u32| {
            let Event { key, category, entity, urgent } = &self.plan.events[number as usize];
            let event = json!({
                "tenant": key.tenant, "digest": key.digest_type, "user": key.user, "event_id": id(number),
                "category": category, "entity_type": "page", "entity_id": format!("p{entity}"),
                "occurred_at": occurred_at, "urgent": urgent, "payload": {"title": format!("Page {entity}")},
            });
            format!("{event}\n")
        };
        let again = numbers.clone().filter(|number| number % TWICE == 0);
        numbers.map(line).chain(again.map(line)).collect()
    }

    /// Retracts an event. If the retract is acknowledged before the event is handed over, no email may contain the
    /// event. An erasure takes the person's retracts, and Temporal may lose retracts with its data.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub async fn retract(&self, number: u32) -> Result<bool> {
        let Event { key, .. } = &self.plan.events[number as usize];
        let words = ["retract".to_owned(), key.to_string(), "--event".to_owned(), id(number)];
        let losses = self.tidings.losses();
        let done = self.tidings.command(&words).output().await?.status.success();
        let batch = self.plan.batches.iter().position(|numbers| numbers.contains(&number)).context("no such event")?;
        let kept = key.user != self.plan.erased() && losses == self.tidings.losses();
        if done && kept && !self.files.path(&format!("batches/{batch}.ndjson")).exists() {
            let line =
                json!({"tenant": key.tenant, "digest": key.digest_type, "user": key.user, "event_id": id(number)});
            self.files.append("retracted.ndjson", &line)?;
        }
        Ok(done)
    }

    /// Hands over a single message, repeatedly until it is accepted. The same number is the same message.
    ///
    /// # Errors
    /// When `tidings send` ends with an undocumented exit code, or the files cannot be written.
    pub async fn send(&self, number: u32) -> Result<bool> {
        let user = &self.plan.users[number as usize % self.plan.users.len()];
        let key = format!("single-{number}");
        let words =
            ["send", "--tenant", "acme", "--to", user, "--key", &key, "--subject", "One", "--text", TEXT, "--json"];
        loop {
            let output = self.tidings.command(&words.map(str::to_owned)).output().await?;
            match output.status.code() {
                Some(0) => {
                    let said: Value = serde_json::from_slice(&output.stdout)?;
                    self.files.append("sent.ndjson", &json!({"id": said["id"]}))?;
                    return Ok(true);
                }
                // Refused, because the address is suppressed.
                Some(2) => return Ok(false),
                // The message may be in the outbox, but its workflow starts only with the next try.
                Some(1) => sleep(PAUSE).await,
                _ => bail!("tidings send of message {number} ended with {}", output.status),
            }
        }
    }
}

fn id(number: u32) -> String {
    format!("e{number}")
}
