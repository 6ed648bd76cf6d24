//! One job, from lease to completion.
//!
//! Temporal visibility finds running keys, as for `--filter`. Keys to reopen are usually idle, so those come
//! from the ledger: their latest digest ended without a message.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, future::join_all};
use jiff::Timestamp;
use serde_json::{Value, json};
use temporalio_client::Client;
use tidings_client::{
    CommandError, WorkflowCommands,
    commands::{CommandResult, DigestCommands},
};
use tidings_model::{
    Key,
    command::ReopenResult,
    job::{Job, JobState, JobTask, KeyResult, MOST_KEYS, MOST_SILENT, ORDERS_A_SECOND},
    records::{DigestFilter, DigestRecord, PageRequest},
    settings::FormerNames,
    window::DigestOutcome,
};
use tidings_operations::{
    digest::{OUTCOMES, can_be_reopened, latest_ended},
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

pub(super) struct LeasedJob {
    pub store: Arc<dyn Store>,
    pub temporal: Client,
    pub commands: WorkflowCommands,
    pub job: Job,
    pub holder: Uuid,
    pub names: FormerNames,
    pub shutdown: CancellationToken,
}

enum StopReason {
    End(JobState, String),
    /// Shutdown: another gateway can continue immediately.
    GiveBack,
    /// The lease is lost or the store is down: a gateway continues once the lease expires.
    Leave,
}

enum CommandFailure {
    Refused(String),
    Silent(String),
}

impl LeasedJob {
    pub async fn carry_out(self: Arc<Self>) {
        let stop = match select_keys(&self).await {
            Ok(()) if self.job.dry_run => StopReason::End(JobState::Done, String::new()),
            Ok(()) => self.order_all().await,
            Err(stop) => stop,
        };
        let (id, holder) = (self.job.id, self.holder);
        match stop {
            StopReason::End(state, problem) => {
                self.retry_store(|| self.store.end_job(id, holder, state, &problem, Timestamp::now())).await;
                tracing::info!(job = %id, %state, problem, "job ended");
            }
            StopReason::GiveBack => {
                // If this fails, the lease expires.
                let _ = self.store.give_job_back(id, holder).await;
            }
            StopReason::Leave => {}
        }
    }

    /// Each batch is a task, because it may hold the connection that the next keys need.
    async fn order_all(self: &Arc<Self>) -> StopReason {
        let mut turn = interval(Duration::from_secs(1) * BATCH / ORDERS_A_SECOND);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut batches, mut silent) = (JoinSet::new(), 0);
        let stop = loop {
            turn.tick().await;
            while let Some(ended) =
                if batches.len() < BATCHES { batches.try_join_next() } else { self.next_ended(&mut batches).await }
            {
                silent = count_silent(silent, ended.unwrap_or_default());
            }
            if silent >= MOST_SILENT {
                break StopReason::End(JobState::Failed, too_silent());
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

    async fn next_keys(&self) -> Result<Vec<Key>, StopReason> {
        if self.shutdown.is_cancelled() {
            return Err(StopReason::GiveBack);
        }
        match self.store.send_job_keys(self.job.id, self.holder, BATCH, Timestamp::now()).await {
            Ok(Some(keys)) if keys.is_empty() => Err(StopReason::End(JobState::Done, String::new())),
            Ok(Some(keys)) => Ok(keys),
            Ok(None) => Err(StopReason::Leave),
            // Some keys may be marked without a command. The next lease will find them.
            Err(error) => {
                tracing::warn!(%error, job = %self.job.id, "cannot get the next keys of a job");
                Err(StopReason::Leave)
            }
        }
    }

    /// Returns for each key whether it responded.
    async fn order_batch(self: Arc<Self>, keys: Vec<Key>) -> Vec<bool> {
        let ordered = join_all(keys.into_iter().map(|key| self.command_key(key))).await;
        let (results, answered): (Vec<_>, Vec<_>) = ordered.into_iter().unzip();
        let results: Vec<_> = results.into_iter().flatten().collect();
        self.retry_store(|| self.store.end_job_keys(self.job.id, &results, Timestamp::now())).await;
        answered
    }

    /// Also returns `true` if the key responded. No result means this process is stopping and the next
    /// gateway will send the command again.
    async fn command_key(&self, key: Key) -> (Option<KeyResult>, bool) {
        let update_id = self.job.update_id();
        let mut asks = 0;
        loop {
            asks += 1;
            let given = tokio::select! {
                given = self.send_command(&key, self.commands.digest(&key).with_id(&update_id)) => given,
                () = self.shutdown_grace() => Err(CommandFailure::Silent("the gateway ended before the answer came".to_owned())),
            };
            match given {
                Ok(answer) => return (Some(KeyResult::done(key, answer)), true),
                Err(CommandFailure::Refused(why)) => return (Some(KeyResult::failed(key, &why)), true),
                Err(CommandFailure::Silent(why)) => {
                    match after_silence(&self.job.task, asks, self.shutdown.is_cancelled()) {
                        SilenceAction::AskAgain => {}
                        SilenceAction::LeaveToNext => return (None, false),
                        SilenceAction::Failed => return (Some(KeyResult::failed(key, &why)), false),
                    }
                }
            }
        }
    }

    async fn shutdown_grace(&self) {
        self.shutdown.cancelled().await;
        sleep(LAST_PATIENCE).await;
    }

    async fn send_command(&self, key: &Key, workflow: DigestCommands<'_>) -> Result<Value, CommandFailure> {
        let mut task = self.job.task.clone();
        if let JobTask::Reopen { digest_id, .. } = &mut task {
            let digest = latest_ended(&*self.store, key).await?;
            let digest = digest.ok_or_else(|| CommandFailure::Refused("no digest of the key has ended".to_owned()))?;
            *digest_id = Some(digest.digest_id);
        }
        match workflow.send(&task, self.job.order.clone(), true).await? {
            CommandResult::Reopened(ReopenResult { refused: Some(why), .. }) => Err(CommandFailure::Refused(why)),
            done => Ok(json!(done)),
        }
    }

    async fn retry_store<T, F: Future<Output = tidings_store::Result<T>>>(&self, call: impl Fn() -> F) -> T {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => tracing::warn!(%error, job = %self.job.id, "cannot record job progress; retrying"),
            }
            sleep(PAUSE).await;
        }
    }
}

async fn select_keys(work: &LeasedJob) -> Result<(), StopReason> {
    if work.job.matched.is_some() {
        return Ok(());
    }
    let filter = work.job.filter.parse::<KeyFilter>().ok();
    let filter = filter.and_then(|filter| filter.within_tenant(work.job.tenant.clone(), &work.names));
    let filter = filter.ok_or_else(|| fail_job("the filter cannot be read"))?;
    let mut selected = 0;
    for filter in filter.under_each_name(&work.names) {
        match work.job.task {
            JobTask::Reopen { .. } => select_ended(work, &filter, &mut selected).await?,
            _ => select_running(work, &filter, &mut selected).await?,
        }
    }
    add_keys(work, &[], true).await
}

/// Adds the number of keys to `selected`, like [`select_ended`].
async fn select_running(work: &LeasedJob, filter: &KeyFilter, selected: &mut usize) -> Result<(), StopReason> {
    let mut found = pin!(filter.stream_keys(&work.temporal).chunks(CHUNK));
    while let Some(keys) = found.next().await {
        let keys: Vec<Key> = keys.into_iter().collect::<Result<_, _>>().map_err(|error| {
            tracing::warn!(%error, job = %work.job.id, "cannot list the keys of a job in Temporal");
            StopReason::Leave
        })?;
        *selected += keys.len();
        add_some(work, &keys, *selected).await?;
    }
    Ok(())
}

async fn select_ended(work: &LeasedJob, filter: &KeyFilter, selected: &mut usize) -> Result<(), StopReason> {
    for outcome in OUTCOMES {
        let mut digests = ended_filter(filter, outcome);
        loop {
            let page = work.retry_store(|| work.store.list_digests(&digests)).await;
            let mut keys = Vec::new();
            for digest in page.rows.iter().filter(|digest| filter.selects(&digest.key)) {
                if work.retry_store(|| is_latest(work, digest)).await {
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

async fn is_latest(work: &LeasedJob, digest: &DigestRecord) -> tidings_store::Result<bool> {
    let latest = latest_ended(&*work.store, &digest.key).await?;
    Ok(latest.is_some_and(|latest| latest.digest_id == digest.digest_id && can_be_reopened(&latest)))
}

async fn add_some(work: &LeasedJob, keys: &[Key], selected: usize) -> Result<(), StopReason> {
    if selected > MOST_KEYS {
        return Err(fail_job(&format!("the filter selects more than {MOST_KEYS} keys; post several jobs")));
    }
    if work.shutdown.is_cancelled() {
        return Err(StopReason::GiveBack);
    }
    add_keys(work, keys, false).await
}

async fn add_keys(work: &LeasedJob, keys: &[Key], is_last: bool) -> Result<(), StopReason> {
    let add = || work.store.add_job_keys(work.job.id, work.holder, keys, is_last, Timestamp::now());
    if work.retry_store(add).await { Ok(()) } else { Err(StopReason::Leave) }
}

fn fail_job(problem: &str) -> StopReason {
    StopReason::End(JobState::Failed, problem.to_owned())
}

fn ended_filter(filter: &KeyFilter, outcome: DigestOutcome) -> DigestFilter {
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
        page: PageRequest { limit: DIGESTS, after: None },
    }
}

#[derive(Debug, PartialEq, Eq)]
enum SilenceAction {
    AskAgain,
    /// The key stays marked as sent, so the next gateway will send this command again.
    LeaveToNext,
    Failed,
}

/// Repeats only idempotent commands, because the last one may have run meanwhile.
const fn after_silence(task: &JobTask, asks: u32, ends: bool) -> SilenceAction {
    match (task.is_idempotent(), ends) {
        (true, true) => SilenceAction::LeaveToNext,
        (true, false) if asks < ASKS => SilenceAction::AskAgain,
        _ => SilenceAction::Failed,
    }
}

/// Once this is too high, it no longer resets.
fn count_silent(silent: u32, batch: Vec<bool>) -> u32 {
    batch.into_iter().fold(silent, |silent, answered| match answered {
        _ if silent >= MOST_SILENT => silent,
        true => 0,
        false => silent + 1,
    })
}

fn too_silent() -> String {
    format!("{MOST_SILENT} consecutive keys did not respond: post the job again when Temporal and a worker are back")
}

impl From<CommandError> for CommandFailure {
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

impl From<tidings_store::StoreError> for CommandFailure {
    fn from(error: tidings_store::StoreError) -> Self {
        tracing::warn!(%error, "job command was not sent");
        Self::Silent("the database did not respond; the command was not sent".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_without_an_answer_is_given_again_where_that_changes_nothing() {
        let hold = JobTask::Hold { until: None };
        assert_eq!(after_silence(&hold, 1, false), SilenceAction::AskAgain);
        assert_eq!(after_silence(&hold, ASKS, false), SilenceAction::Failed);
        assert_eq!(after_silence(&hold, 1, true), SilenceAction::LeaveToNext);
        for task in [JobTask::Flush, JobTask::Drop, JobTask::Reopen { digest_id: None, may_duplicate: false }] {
            assert_eq!(after_silence(&task, 1, false), SilenceAction::Failed, "{task:?}");
            assert_eq!(after_silence(&task, 1, true), SilenceAction::Failed, "{task:?}");
        }
    }

    #[test]
    fn consecutive_keys_without_an_answer_are_counted_over_batches() {
        assert_eq!(count_silent(2, vec![false, false]), 4);
        assert_eq!(count_silent(7, vec![false, true, false]), 1);
        assert_eq!(count_silent(MOST_SILENT - 1, vec![false, true]), MOST_SILENT);
    }
}
