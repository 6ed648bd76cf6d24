//! The keys of a job.
//!
//! Temporal's visibility finds the running keys, as for `--where`. A key to reopen is idle as a rule, so that the ledger finds it: the
//! latest ended digest of the key came to nothing.

use std::pin::pin;

use futures::StreamExt as _;
use jiff::Timestamp;
use tidings_activities::operations::{
    key_filter::KeyFilter,
    reopen::{OUTCOMES, can_be_reopened, latest},
};
use tidings_model::{
    Key,
    job::{JobState, MOST_KEYS, Task},
    records::{DigestFilter, DigestRecord, Page},
    step::Outcome,
};

use super::work::{Stop, Work};

/// Keys that are added to a job at once.
const CHUNK: usize = 1_000;
/// Digests of one page of the ledger.
const DIGESTS: u32 = 500;

/// Selects the keys of the job, unless that was done before.
pub(super) async fn select(work: &Work) -> Result<(), Stop> {
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

/// Adds the number of keys to `selected`, as [`select_ended`] does.
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

/// The filter of digests with this outcome.
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
