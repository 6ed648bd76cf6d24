//! One job, from lease to completion.
//!
//! Temporal visibility finds running keys, as for `--where`. Keys to reopen are usually idle, so those come
//! from the ledger: their latest digest ended without a message.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all};
use jiff::Timestamp;
use serde_json::{Value, json};
use temporalio_client::Client;
use tidings_client::{
    CommandError, Commands,
    commands::{DigestCommands, Done},
};
use tidings_model::{
    Key,
    command::Reopened,
    job::{Job, JobState, KeyResult, MOST_KEYS, MOST_SILENT, ORDERS_A_SECOND, Task},
    records::{DigestFilter, DigestRecord, Page},
    settings::FormerNames,
    window::Outcome,
};
use tidings_operations::{
    digest::{OUTCOMES, can_be_reopened, latest},
    key_filter::KeyFilter,
};
use tidings_store::Store;
use tokio::{
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Keys inserted per store call.
const CHUNK: usize = 1_000;
/// Page size when reading digests.
const DIGESTS: u32 = 500;

/// Keys per batch.
const BATCH: u32 = 10;
/// Concurrent batches. A slow key delays only its own batch.
const BATCHES: usize = 4;
/// Attempts of an idempotent command without a response.
const ASKS: u32 = 2;
/// Interval of lease extensions while waiting for responses.
const EXTEND: Duration = Duration::from_secs(10);
/// Shutdown grace for commands in flight.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// Backoff while the store is down.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Work {
    pub store: Arc<dyn Store>,
    pub temporal: Client,
    pub commands: Commands,
    pub job: Job,
    pub holder: Uuid,
    pub names: FormerNames,
    pub shutdown: CancellationToken,
}

enum Stop {
    End(JobState, String),
    /// Shutdown: another gateway can continue immediately.
    GiveBack,
    /// The lease is lost or the store is down: a gateway continues once the lease expires.
    Leave,
}

enum Failure {
    Refused(String),
    Silent(String),
}

impl Work {
    pub async fn carry_out(self: Arc<Self>) {
        let stop = match select(&self).await {
            Ok(()) if self.job.dry_run => Stop::End(JobState::Done, String::new()),
            Ok(()) => self.order_all().await,
            Err(stop) => stop,
        };
        let (id, holder) = (self.job.id, self.holder);
        match stop {
            Stop::End(state, problem) => {
                self.persist(|| self.store.end_job(id, holder, state, &problem, Timestamp::now())).await;
                tracing::info!(job = %id, %state, problem, "a job has ended");
            }
            Stop::GiveBack => {
                // If this fails, the lease expires.
                let _ = self.store.give_job_back(id, holder).await;
            }
            Stop::Leave => {}
        }
    }

    /// Each batch is a task, because it may hold the connection that the next keys need.
    async fn order_all(self: &Arc<Self>) -> Stop {
        let mut turn = interval(Duration::from_secs(1) * BATCH / ORDERS_A_SECOND);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut batches, mut silent) = (JoinSet::new(), 0);
        let stop = loop {
            turn.tick().await;
            while let Some(ended) =
                if batches.len() < BATCHES { batches.try_join_next() } else { self.next_ended(&mut batches).await }
            {
                silent = heard(silent, ended.unwrap_or_default());
            }
            if silent >= MOST_SILENT {
                break Stop::End(JobState::Failed, too_silent());
            }
            match self.next_keys().await {
                Ok(keys) => drop(batches.spawn(self.clone().order_batch(keys))),
                Err(stop) => break stop,
            }
        };
        while self.next_ended(&mut batches).await.is_some() {}
        stop
    }

    /// Extends the lease while waiting, because keys can be slow.
    async fn next_ended(&self, batches: &mut JoinSet<Vec<bool>>) -> Option<Result<Vec<bool>, JoinError>> {
        loop {
            if let Ok(ended) = timeout(EXTEND, batches.join_next()).await {
                return ended;
            }
            // Only extends the lease, with zero keys. If it is lost, the next call will notice this.
            let _ = self.store.send_job_keys(self.job.id, self.holder, 0, Timestamp::now()).await;
        }
    }

    async fn next_keys(&self) -> Result<Vec<Key>, Stop> {
        if self.shutdown.is_cancelled() {
            return Err(Stop::GiveBack);
        }
        match self.store.send_job_keys(self.job.id, self.holder, BATCH, Timestamp::now()).await {
            Ok(Some(keys)) if keys.is_empty() => Err(Stop::End(JobState::Done, String::new())),
            Ok(Some(keys)) => Ok(keys),
            Ok(None) => Err(Stop::Leave),
            // Some keys may be marked without a command. The next lease will find them.
            Err(error) => {
                tracing::warn!(%error, job = %self.job.id, "a job gets no keys");
                Err(Stop::Leave)
            }
        }
    }

    /// Returns for each key whether it responded.
    async fn order_batch(self: Arc<Self>, keys: Vec<Key>) -> Vec<bool> {
        let ordered = join_all(keys.into_iter().map(|key| self.order(key))).await;
        let (results, answered): (Vec<_>, Vec<_>) = ordered.into_iter().unzip();
        let results: Vec<_> = results.into_iter().flatten().collect();
        self.persist(|| self.store.end_job_keys(self.job.id, &results, Timestamp::now())).await;
        answered
    }

    /// Also returns `true` if the key responded. No result means this process is stopping and the next
    /// gateway will send the command again.
    async fn order(&self, key: Key) -> (Option<KeyResult>, bool) {
        let update_id = self.job.update_id();
        let mut asks = 0;
        loop {
            asks += 1;
            let given = tokio::select! {
                given = self.give(&key, self.commands.digest(&key).with_id(&update_id)) => given,
                () = self.ending() => Err(Failure::Silent("the gateway ended before the answer came".to_owned())),
            };
            match given {
                Ok(answer) => return (Some(KeyResult::done(key, answer)), true),
                Err(Failure::Refused(why)) => return (Some(KeyResult::failed(key, &why)), true),
                Err(Failure::Silent(why)) => match after_silence(&self.job.task, asks, self.shutdown.is_cancelled()) {
                    Silence::AskAgain => {}
                    Silence::LeaveToNext => return (None, false),
                    Silence::Failed => return (Some(KeyResult::failed(key, &why)), false),
                },
            }
        }
    }

    async fn ending(&self) {
        self.shutdown.cancelled().await;
        sleep(LAST_PATIENCE).await;
    }

    async fn give(&self, key: &Key, workflow: DigestCommands<'_>) -> Result<Value, Failure> {
        let mut task = self.job.task.clone();
        if let Task::Reopen { digest_id, .. } = &mut task {
            let digest = latest(&*self.store, key).await?;
            let digest = digest.ok_or_else(|| Failure::Refused("no digest of the key has an end".to_owned()))?;
            *digest_id = Some(digest.digest_id);
        }
        match workflow.send(&task, self.job.order.clone(), true).await? {
            Done::Reopened(Reopened { refused: Some(why), .. }) => Err(Failure::Refused(why)),
            done => Ok(json!(done)),
        }
    }

    /// Retries until the store answers.
    async fn persist<T, F: Future<Output = tidings_store::Result<T>>>(&self, call: impl Fn() -> F) -> T {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => tracing::warn!(%error, job = %self.job.id, "a step of a job is not recorded yet"),
            }
            sleep(PAUSE).await;
        }
    }
}

async fn select(work: &Work) -> Result<(), Stop> {
    if work.job.matched.is_some() {
        return Ok(());
    }
    let filter = work.job.words.parse::<KeyFilter>().ok();
    let filter = filter.and_then(|filter| filter.within(work.job.tenant.clone(), &work.names));
    let filter = filter.ok_or_else(|| failed("the filter cannot be read"))?;
    let mut selected = 0;
    for filter in filter.under_each_name(&work.names) {
        match work.job.task {
            Task::Reopen { .. } => select_ended(work, &filter, &mut selected).await?,
            _ => select_running(work, &filter, &mut selected).await?,
        }
    }
    add(work, &[], true).await
}

/// Adds the number of keys to `selected`, like [`select_ended`].
async fn select_running(work: &Work, filter: &KeyFilter, selected: &mut usize) -> Result<(), Stop> {
    let mut found = pin!(filter.found(&work.temporal).chunks(CHUNK));
    while let Some(keys) = found.next().await {
        let keys: Vec<Key> = keys.into_iter().collect::<Result<_, _>>().map_err(|error| {
            tracing::warn!(%error, job = %work.job.id, "Temporal does not list the keys of a job");
            Stop::Leave
        })?;
        *selected += keys.len();
        add_some(work, &keys, *selected).await?;
    }
    Ok(())
}

async fn select_ended(work: &Work, filter: &KeyFilter, selected: &mut usize) -> Result<(), Stop> {
    for outcome in OUTCOMES {
        let mut digests = ended(filter, outcome);
        loop {
            let page = work.persist(|| work.store.list_digests(&digests)).await;
            let mut keys = Vec::new();
            for digest in page.rows.iter().filter(|digest| filter.selects(&digest.key)) {
                if work.persist(|| is_latest(work, digest)).await {
                    keys.push(digest.key.clone());
                }
            }
            *selected += keys.len();
            add_some(work, &keys, *selected).await?;
            digests.page.after = match page.next {
                Some(next) => Some(next),
                None => break,
            };
        }
    }
    Ok(())
}

async fn is_latest(work: &Work, digest: &DigestRecord) -> tidings_store::Result<bool> {
    let latest = latest(&*work.store, &digest.key).await?;
    Ok(latest.is_some_and(|latest| latest.digest_id == digest.digest_id && can_be_reopened(&latest)))
}

async fn add_some(work: &Work, keys: &[Key], selected: usize) -> Result<(), Stop> {
    if selected > MOST_KEYS {
        return Err(failed(&format!("the filter selects more than {MOST_KEYS} keys; post several jobs")));
    }
    if work.shutdown.is_cancelled() {
        return Err(Stop::GiveBack);
    }
    add(work, keys, false).await
}

async fn add(work: &Work, keys: &[Key], is_last: bool) -> Result<(), Stop> {
    let add = || work.store.add_job_keys(work.job.id, work.holder, keys, is_last, Timestamp::now());
    if work.persist(add).await { Ok(()) } else { Err(Stop::Leave) }
}

fn failed(problem: &str) -> Stop {
    Stop::End(JobState::Failed, problem.to_owned())
}

fn ended(filter: &KeyFilter, outcome: Outcome) -> DigestFilter {
    let KeyFilter { tenant, digest_type, user } = filter.clone();
    DigestFilter {
        tenant,
        digest_type,
        user,
        outcome: Some(outcome),
        state: None,
        since: None,
        until: None,
        overdue_at: None,
        page: Page { limit: DIGESTS, after: None },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Silence {
    AskAgain,
    /// The key stays marked as sent, so the next gateway will send this command again.
    LeaveToNext,
    Failed,
}

/// The worker may have been down, and the last command may have run meanwhile. This is why only idempotent
/// commands are repeated.
const fn after_silence(task: &Task, asks: u32, ends: bool) -> Silence {
    match (task.is_idempotent(), ends) {
        (true, true) => Silence::LeaveToNext,
        (true, false) if asks < ASKS => Silence::AskAgain,
        _ => Silence::Failed,
    }
}

/// Once this is too high, it no longer resets.
fn heard(silent: u32, batch: Vec<bool>) -> u32 {
    batch.into_iter().fold(silent, |silent, answered| match answered {
        _ if silent >= MOST_SILENT => silent,
        true => 0,
        false => silent + 1,
    })
}

fn too_silent() -> String {
    format!("{MOST_SILENT} consecutive keys did not answer; post the job again when Temporal and a worker are back")
}

impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Refused { why, .. } => Self::Refused(why),
            // Affects only this key.
            error
            @ (CommandError::Paused { .. } | CommandError::NotStarted { .. } | CommandError::TasksFail { .. }) => {
                Self::Refused(error.to_string())
            }
            error @ (CommandError::Unanswered { .. } | CommandError::Temporal(_)) => Self::Silent(error.to_string()),
        }
    }
}

impl From<tidings_store::Error> for Failure {
    fn from(error: tidings_store::Error) -> Self {
        tracing::warn!(%error, "a key of a job is not ordered");
        Self::Silent("the store did not answer; the order was not sent".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_without_an_answer_is_given_again_where_that_changes_nothing() {
        let hold = Task::Hold { until: None };
        assert_eq!(after_silence(&hold, 1, false), Silence::AskAgain);
        assert_eq!(after_silence(&hold, ASKS, false), Silence::Failed);
        assert_eq!(after_silence(&hold, 1, true), Silence::LeaveToNext);
        for task in [Task::Flush, Task::Drop, Task::Reopen { digest_id: None, may_duplicate: false }] {
            assert_eq!(after_silence(&task, 1, false), Silence::Failed, "{task:?}");
            assert_eq!(after_silence(&task, 1, true), Silence::Failed, "{task:?}");
        }
    }

    #[test]
    fn consecutive_keys_without_an_answer_are_counted_over_batches() {
        assert_eq!(heard(2, vec![false, false]), 4);
        assert_eq!(heard(7, vec![false, true, false]), 1);
        assert_eq!(heard(MOST_SILENT - 1, vec![false, true]), MOST_SILENT);
    }
}
