//! Orders of operators and recipients during a run, by the command line where it has the command, else by Temporal.

use std::{process::Output, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use temporalio_client::{
    WorkflowCancelOptions, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowTerminateOptions,
};
use tidings_harness::server::run_handle;
use tidings_model::{
    Key,
    records::{MessageFilter, MessageState, PageRequest, SuppressionFilter},
    window::DigestOutcome,
};
use tidings_store::Store;
use tidings_workflows::Digest;
use tokio::time::{sleep, timeout};

use super::{
    act::{Intervention, Pick},
    plan::Plan,
    settings::{CATEGORIES, RELAYS},
    store,
    tidings::Tidings,
};

/// Time limit for a command: longer than any waits for an answer, also for many keys.
const PATIENCE: Duration = Duration::from_mins(5);
/// Keys that are searched for a digest to reopen.
const LOOK_AT: usize = 40;
pub(super) const AGAIN: Duration = Duration::from_secs(2);
pub(super) const WHY: &str = "chaos";

/// Intervenes on behalf of operators and recipients.
#[derive(Clone)]
pub struct Desk {
    pub plan: Arc<Plan>,
    pub tidings: Tidings,
    pub store: store::Place,
}

impl Desk {
    /// Carries out an intervention. Answers `false` if the intervention was not carried out, for example because of a fault.
    ///
    /// # Errors
    /// When the command ends with an undocumented exit code.
    pub async fn intervene(&self, intervention: Intervention, key: &Key) -> Result<bool> {
        match intervention {
            Intervention::Cancel => Ok(self.cancel(key).await.is_ok()),
            Intervention::Erase => self.erase_and_import(&key.tenant).await,
            Intervention::Terminate => match self.running(key).await {
                Ok(Some(run)) => self.terminate(key, &run, self.tidings.losses()).await,
                Ok(None) | Err(_) => Ok(false),
            },
            intervention => {
                let output = self.tell(&words(intervention, key)).await?;
                // Orders of the plan are valid, but a fault may prevent them.
                ensure!(output.status.code() != Some(2), "{intervention:?} is refused: {output:?}");
                Ok(output.status.success())
            }
        }
    }

    /// Draws a subject from the ledger and intervenes there.
    ///
    /// # Errors
    /// When the command ends with an undocumented exit code.
    pub async fn pick(&self, pick: Pick, number: u32) -> Result<bool> {
        let looking = async {
            let store = self.store.open().await?;
            self.words_of(&*store, pick, number as usize).await
        };
        // Without the ledger there is nothing to draw from.
        let Ok(Ok(Some(words))) = timeout(PATIENCE, looking).await else { return Ok(false) };
        self.tell(&words).await.map(|output| output.status.success())
    }

    async fn words_of(&self, store: &dyn Store, pick: Pick, number: usize) -> Result<Option<Vec<String>>> {
        let say = |words: &[&str]| Some(words.iter().map(|&word| word.to_owned()).collect());
        let message = async |states: &[MessageState]| -> Result<Option<String>> {
            let page = PageRequest { limit: 200, after: None };
            let all = store.messages(&MessageFilter { tenant: None, state: None, page }).await?.rows;
            let fit: Vec<_> = all.iter().filter(|message| states.contains(&message.state)).collect();
            Ok((!fit.is_empty()).then(|| fit[number % fit.len()].id.to_string()))
        };
        Ok(match pick {
            Pick::Reopen => match self.reopenable(store, number).await? {
                Some((key, id)) if number.is_multiple_of(2) => {
                    say(&["digest", "reopen", &key, &id, "--why", WHY, "--may-duplicate"])
                }
                Some((key, id)) => say(&["digest", "reopen", &key, &id, "--why", WHY]),
                None => None,
            },
            Pick::RetryMessage => message(&[MessageState::Failed, MessageState::Cancelled, MessageState::Ambiguous])
                .await?
                .and_then(|id| say(&["messages", "retry", &id, "--why", WHY])),
            Pick::CancelMessage => message(&[MessageState::Queued, MessageState::Sending, MessageState::Deferred])
                .await?
                .and_then(|id| say(&["messages", "cancel", &id, "--why", WHY])),
            Pick::Lift => {
                let page = PageRequest { limit: 50, after: None };
                let all = store.suppressions(&SuppressionFilter { tenant: None, address: None, page }).await?.rows;
                let one = (!all.is_empty()).then(|| &all[number % all.len()]);
                one.and_then(|one| say(&["suppressions", "lift", &one.tenant, &one.address, "--why", WHY]))
            }
        })
    }

    /// A digest that ended without an email, and its key.
    async fn reopenable(&self, store: &dyn Store, number: usize) -> Result<Option<(String, String)>> {
        let keys: Vec<_> = self.plan.keys().into_iter().collect();
        for key in keys.iter().cycle().skip(number % keys.len()).take(LOOK_AT) {
            let to_nothing = |outcome| {
                matches!(
                    outcome,
                    DigestOutcome::Dropped | DigestOutcome::Failed | DigestOutcome::Ambiguous | DigestOutcome::Unknown
                )
            };
            let mut digests = store.digests(key, 10).await?.into_iter();
            let found = digests.find(|digest| digest.closed.as_ref().is_some_and(|closed| to_nothing(closed.outcome)));
            if let Some(digest) = found {
                return Ok(Some((key.to_string(), digest.digest_id.to_string())));
            }
        }
        Ok(None)
    }

    async fn cancel(&self, key: &Key) -> Result<()> {
        let workflow = self.tidings.temporal().await?.get_workflow_handle::<Digest>(key.workflow_id());
        Ok(workflow.cancel(WorkflowCancelOptions::default()).await?)
    }

    /// The key's open run, if there is one.
    async fn running(&self, key: &Key) -> Result<Option<String>> {
        let workflow = self.tidings.temporal().await?.get_workflow_handle::<Digest>(key.workflow_id());
        let run = workflow.describe(WorkflowDescribeOptions::default()).await?;
        Ok((run.status() == WorkflowExecutionStatus::Running).then(|| run.run_id().to_owned()))
    }

    /// Terminates a run and recovers it, as an operator must. Answers `false` if the run ended before, or if Temporal lost it since it had
    /// lost its data this many times.
    async fn terminate(&self, key: &Key, run: &str, losses: u64) -> Result<bool> {
        let end = loop {
            // A lost answer may have been a success.
            if let Ok(Some(end)) = self.end(key, run).await {
                break end;
            }
            if self.tidings.losses() > losses {
                return Ok(false);
            }
            sleep(AGAIN).await;
        };
        if end != WorkflowExecutionStatus::Terminated {
            return Ok(false);
        }
        // The command may take its time, because only the history has the run's events.
        while !self.recovered(key, run).await? {
            if self.tidings.losses() > losses {
                return Ok(false);
            }
            sleep(AGAIN).await;
        }
        Ok(true)
    }

    /// Terminates this run and no later one. Answers with the status in which the run ended.
    async fn end(&self, key: &Key, run: &str) -> Result<Option<WorkflowExecutionStatus>> {
        let temporal = self.tidings.temporal().await?;
        let workflow = run_handle(&temporal, key.workflow_id(), Some(run));
        // After an error the run may be over, or only the answer was lost.
        let _ = workflow.terminate(WorkflowTerminateOptions::default()).await;
        let end = workflow.describe(WorkflowDescribeOptions::default()).await?.status();
        Ok((end != WorkflowExecutionStatus::Running).then_some(end))
    }

    /// Recovers a run. Recovery resends even a digest that the recipient may have.
    async fn recovered(&self, key: &Key, run: &str) -> Result<bool> {
        let words = ["recover", &key.to_string(), "--run", run, "--why", WHY, "--json"].map(str::to_owned);
        let output = timeout(PATIENCE, self.tidings.command(&words).output()).await.context("tidings recover")??;
        self.tidings.note(&words, &output)?;
        if output.status.success() {
            return Ok(true);
        }
        let Ok(said) = serde_json::from_slice::<Value>(&output.stdout) else { return Ok(false) };
        for digest in said["digests"].as_array().into_iter().flatten() {
            let (Some(id), true) = (digest["digest_id"].as_str(), digest["refused"].is_string()) else { continue };
            let words = ["digest", "reopen", &key.to_string(), id, "--why", WHY, "--may-duplicate"];
            self.tell(&words.map(str::to_owned)).await?;
        }
        Ok(false)
    }

    /// Runs a command and logs its result.
    ///
    /// # Errors
    /// When the command does not end in time, or ends with an undocumented exit code.
    pub async fn tell(&self, words: &[String]) -> Result<Output> {
        let output = timeout(PATIENCE, self.tidings.command(words).output()).await;
        let output = output.with_context(|| format!("tidings {}: no end", words.join(" ")))??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            matches!(output.status.code(), Some(0..=2)) && !said.contains("panicked at"),
            "tidings {}: {}: {said}",
            words.join(" "),
            output.status
        );
        self.tidings.note(words, &output)?;
        Ok(output)
    }
}

/// The words of an intervention on the command line.
fn words(intervention: Intervention, key: &Key) -> Vec<String> {
    let named = key.to_string();
    let tenant = format!("tenant={}", key.tenant);
    let digest_type = format!("{tenant} and digest_type={}", key.digest_type);
    let words: &[&str] = match intervention {
        Intervention::Flush => &["flush", &named],
        Intervention::Hold => &["digest", "hold", &named],
        Intervention::Release => &["digest", "release", &named],
        Intervention::ReleaseTenant => &["digest", "release", "--filter", &digest_type, "--rate", "50"],
        Intervention::Drop => &["digest", "drop", &named],
        Intervention::Retime => &["digest", "retime", &named, "--at", "3s"],
        Intervention::Preview => &["digest", "preview", &named],
        Intervention::Status => &["status", &named, "--json"],
        Intervention::Cadence(Some(cadence)) => &["preferences", "set", &named, "--cadence", cadence],
        Intervention::Cadence(None) => &["preferences", "set", &named, "--clear", "cadence"],
        Intervention::Off => &["preferences", "set", &named, "--off", CATEGORIES[1]],
        Intervention::On => &["preferences", "set", &named, "--on", CATEGORIES[1]],
        Intervention::Pause => &["preferences", "set", &named, "--pause-until", "2h"],
        Intervention::Resume => &["preferences", "set", &named, "--resume"],
        Intervention::Withdraw => &["consent", "withdraw", &named],
        Intervention::Grant => &["consent", "grant", &named],
        Intervention::OpenRelay(relay) => &["relays", "open", RELAYS[relay]],
        Intervention::CloseRelay(relay) => &["relays", "close", RELAYS[relay]],
        Intervention::PauseType => &["pause", "--filter", &digest_type],
        Intervention::ResumeType => &["resume", "--filter", &digest_type],
        Intervention::PauseTenant => &["pause", "--filter", &tenant, "--messages", "--until", "20s"],
        Intervention::ResumeTenant => &["resume", "--filter", &tenant],
        // These take more than one command.
        Intervention::Cancel | Intervention::Terminate | Intervention::Erase => &[],
    };
    let unasked = matches!(intervention, Intervention::Flush | Intervention::Preview | Intervention::Status);
    let reason: &[&str] = if unasked { &[] } else { &["--why", WHY] };
    words.iter().chain(reason).map(|&word| word.to_owned()).collect()
}
