//! Retention activities: archive and delete old data, batch by batch.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use temporalio_client::Client;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_client::WorkflowCommands;
use tidings_model::{
    AlertName, Key,
    inbox::InboxLimits,
    process::ProcessProfile,
    retention::{self, CutoffsInput, PurgeAnswer, RetentionCutoff, RetentionKind, RetractExpiry},
    settings::FormerNames,
};
use tidings_services::{
    error::{StepError, activity_result},
    processes,
};
use tidings_store::{Store, archive::Archive};
use tidings_workflows::{DigestStatus, activities::definitions::retention as definitions};

use crate::context::unless_ahead;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionLimits {
    /// For events since their digest's end, retracts and dead letters since their arrival, and notices since
    /// their delivery. `None` keeps them forever. Event ids are deduplicated for as long (rule 3).
    pub events: Option<Duration>,
    /// Since their end; `None` keeps them forever. Idempotency keys are remembered for as long.
    pub messages: Option<Duration>,
    /// Since their arrival; `None` keeps them forever.
    pub delivery_events: Option<Duration>,
    pub inbox: Duration,
    pub archive: Option<Archive>,
}

impl RetentionLimits {
    #[must_use]
    pub fn cutoffs(&self, now: Timestamp) -> Vec<RetentionCutoff> {
        let cutoff = |kind| {
            let age = SignedDuration::try_from(self.age_limit(kind)?).unwrap_or(SignedDuration::MAX);
            Some(RetentionCutoff { kind, before: now.saturating_sub(age).unwrap_or(Timestamp::MIN) })
        };
        RetentionKind::ALL.into_iter().filter_map(cutoff).collect()
    }

    const fn age_limit(&self, kind: RetentionKind) -> Option<Duration> {
        match kind {
            RetentionKind::Events | RetentionKind::Retracts | RetentionKind::DeadLetters | RetentionKind::Notices => {
                self.events
            }
            RetentionKind::Messages => self.messages,
            RetentionKind::DeliveryEvents => self.delivery_events,
            RetentionKind::Inbox => Some(self.inbox),
        }
    }
}

impl Default for RetentionLimits {
    fn default() -> Self {
        let age = Some(retention::DEFAULT_AGE);
        Self { events: age, messages: age, delivery_events: age, inbox: InboxLimits::default().keep, archive: None }
    }
}

/// SQLite blocks all other writes while a batch is archived, and emails and dead letters are up to a hundred
/// times larger than other rows.
const fn batch(kind: RetentionKind) -> u32 {
    match kind {
        RetentionKind::Events
        | RetentionKind::Retracts
        | RetentionKind::DeliveryEvents
        | RetentionKind::Inbox
        | RetentionKind::Notices => 500,
        RetentionKind::DeadLetters | RetentionKind::Messages => 50,
    }
}

/// Keys with old retracts to query together, and how many of them concurrently.
const KEYS: u32 = 100;
const ASKED_AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(10);

pub struct RetentionActivities {
    pub store: Arc<dyn Store>,
    pub retention: RetentionLimits,
    pub task_queue: String,
    /// Former names: a window open under one name needs retracts stored under the others, too.
    pub names: FormerNames,
    pub own: ProcessProfile,
}

#[activities]
impl RetentionActivities {
    /// Computes this run's cutoffs from Temporal's time, since a worker with its clock ahead would delete
    /// everything.
    ///
    /// # Errors
    /// If the store fails, or the workers disagree, since another one may keep data for longer.
    #[activity(definition = definitions::Cutoffs)]
    pub async fn cutoffs(
        self: Arc<Self>,
        _ctx: ActivityContext,
        input: CutoffsInput,
    ) -> Result<Vec<RetentionCutoff>, ActivityError> {
        activity_result(self.check_agreement().await)?;
        Ok(self.retention.cutoffs(input.asked_at))
    }

    /// Archives and deletes one batch.
    ///
    /// # Errors
    /// If the workers disagree, this worker's clock is ahead, the store fails, or the archive cannot be
    /// written: make room, or correct `[retention] archive`. Nothing is deleted, and Temporal will retry.
    #[activity(definition = definitions::Purge)]
    pub async fn purge(
        self: Arc<Self>,
        ctx: ActivityContext,
        cutoff: RetentionCutoff,
    ) -> Result<PurgeAnswer, ActivityError> {
        activity_result(unless_ahead(&ctx, None, Box::pin(self.purge_batch(ctx.client(), cutoff))).await)
    }
}

impl RetentionActivities {
    /// Records the archive folder in the store, for files written by an older version.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn remember_archive(&self) -> tidings_store::Result<()> {
        match &self.retention.archive {
            Some(archive) => match self.store.remember_archive(archive, Timestamp::now()).await {
                // Upkeep will report the folder's problem and wait for a fix.
                Err(tidings_store::StoreError::Archive(_)) => Ok(()),
                remembered => remembered,
            },
            None => Ok(()),
        }
    }

    async fn check_agreement(&self) -> Result<(), StepError> {
        Ok(processes::require_agreement(&*self.store, Some(&self.own)).await?)
    }

    async fn purge_batch(&self, temporal: Client, cutoff: RetentionCutoff) -> Result<PurgeAnswer, StepError> {
        self.check_agreement().await?;
        let now = Timestamp::now();
        let cutoffs = self.retention.cutoffs(now);
        let Some(cutoff) = not_later(cutoff, &cutoffs) else { return Ok(PurgeAnswer::default()) };
        let expiries = match cutoff.kind {
            RetentionKind::Retracts => self.find_expiries(temporal, cutoff.before, now).await?,
            _ => Vec::new(),
        };
        let archive = self.retention.archive.as_ref();
        let purged = self.store.purge(cutoff, batch(cutoff.kind), archive, &expiries, now).await;
        if let Err(tidings_store::StoreError::Archive(error)) = &purged {
            tracing::error!(alert = %AlertName::ArchiveFailed, %error, "retention is blocked, and the store grows");
            if let Some(archive) = archive {
                self.store.archive_failed(archive, &error.to_string(), now).await?;
            }
        }
        let purged = purged?;
        if !purged.more && cutoffs.last().is_some_and(|last| last.kind == cutoff.kind) {
            self.store.keep_upkeep(Timestamp::now()).await?;
        }
        Ok(purged)
    }

    /// Finds old retracts no open window needs, by querying the keys' workflows: the ledger lacks most open
    /// windows.
    async fn find_expiries(
        &self,
        temporal: Client,
        before: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<RetractExpiry>, StepError> {
        let commands = WorkflowCommands::new(temporal, &self.task_queue).with_patience(PATIENCE);
        let keys = self.store.keys_of_old_retracts(before, KEYS, now).await?;
        let age = now.duration_since(before);
        let commands = &commands;
        let asked = stream::iter(keys).map(|key| async move {
            let mut opened = Vec::new();
            for name in self.names.all_keys(&key) {
                opened.extend(opened_at(commands, &name).await);
            }
            let opened_at = opened.into_iter().min();
            RetractExpiry { before: expired_before(before, age, opened_at), key }
        });
        Ok(asked.buffer_unordered(ASKED_AT_ONCE).collect().await)
    }
}

async fn opened_at(commands: &WorkflowCommands, key: &Key) -> Option<Timestamp> {
    let unknown = Some(Timestamp::MIN);
    match commands.digest(key).due_window().await {
        Ok(Some(due)) => Some(due.window.opened_at),
        // Events may be waiting for a plan without a window yet.
        Ok(None) => match commands.digest(key).status::<DigestStatus>().await {
            Ok(status) => unknown.filter(|_| status.is_some_and(|status| status.pending + status.uncompared > 0)),
            Err(_) => unknown,
        },
        Err(_) => unknown,
    }
}

/// A retract which reached its maximum age before the window opened is obsolete.
fn expired_before(before: Timestamp, age: SignedDuration, opened_at: Option<Timestamp>) -> Timestamp {
    let needed_from = opened_at.map(|at| at.saturating_sub(age).unwrap_or(Timestamp::MIN));
    needed_from.map_or(before, |from| before.min(from))
}

/// Returns the earlier cutoff, because the configuration may now keep data for longer. `None` if this kind is
/// now kept forever.
fn not_later(cutoff: RetentionCutoff, today: &[RetentionCutoff]) -> Option<RetentionCutoff> {
    let own = today.iter().find(|own| own.kind == cutoff.kind)?;
    Some(RetentionCutoff { before: cutoff.before.min(own.before), ..cutoff })
}

#[cfg(test)]
mod tests {
    use tidings_model::process::{ProcessRecord, ProcessRole};
    use tidings_store::{InstallationStore as _, SqliteStore};
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn upkeep_waits_while_the_live_workers_differ() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::connect(&format!("sqlite:{}", folder.path().join("tidings.db").display())).await.unwrap();
        store.migrate().await.unwrap();
        let own = ProcessProfile::new(ProcessRole::Worker, "a", 1, "tidings");
        let own = ProcessProfile { sections: [("retention".to_owned(), "aa".to_owned())].into(), ..own };
        let mut other =
            ProcessRecord { id: Uuid::nil(), seen_at: store.database_clock().await.unwrap(), profile: own.clone() };
        let (retention, task_queue) = (RetentionLimits::default(), "tidings".to_owned());
        let activities =
            RetentionActivities { store: Arc::new(store), retention, task_queue, names: FormerNames::default(), own };
        for (section, agree) in [("aa", true), ("bb", false), ("aa", true)] {
            other.profile.sections.insert("retention".to_owned(), section.to_owned());
            activities.store.put_process(&other).await.unwrap();
            let agreed = activities.check_agreement().await;
            assert_eq!(agreed.is_ok(), agree, "{section}");
            if let Err(error) = agreed {
                assert!(error.to_string().contains("[retention]"), "{error}");
            }
        }
    }

    #[test]
    fn a_run_that_began_under_a_shorter_retention_deletes_no_more_than_todays() {
        let at = |day: i64| Timestamp::from_second(1_800_000_000 + day * 86_400).unwrap();
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        let before = RetentionLimits { messages: days(1), ..RetentionLimits::default() };
        let [cutoff] = before
            .cutoffs(at(0))
            .into_iter()
            .filter(|cutoff| cutoff.kind == RetentionKind::Messages)
            .collect::<Vec<_>>()[..]
        else {
            panic!("messages have a cutoff")
        };
        for (messages, expected) in [(days(1), Some(-1)), (days(10), Some(-9)), (None, None)] {
            let today = RetentionLimits { messages, ..RetentionLimits::default() }.cutoffs(at(1));
            assert_eq!(not_later(cutoff, &today).map(|cutoff| cutoff.before), expected.map(at), "{messages:?}");
        }
    }

    #[test]
    fn a_retract_is_needed_by_a_window_that_opened_before_the_retract_was_too_old() {
        let at = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
        let age = SignedDuration::from_hours(90 * 24);
        for (opened_at, expected) in [
            (None, at(10)),
            // Opened on the day on which the retract of day 10 is 90 days old, and earlier.
            (Some(at(100)), at(10)),
            (Some(at(99)), at(9)),
            (Some(at(20)), at(-70)),
            (Some(at(200)), at(10)),
            (Some(Timestamp::MIN), Timestamp::MIN),
        ] {
            assert_eq!(expired_before(at(10), age, opened_at), expected, "{opened_at:?}");
        }
    }

    #[test]
    fn unlimited_retention_has_no_cutoff() {
        let now: Timestamp = "2026-11-21T03:30:00Z".parse().unwrap();
        let cutoffs = |retention: RetentionLimits| {
            let cutoffs = retention.cutoffs(now).into_iter();
            cutoffs.map(|RetentionCutoff { kind, before }| format!("{} {before}", kind.name())).collect::<Vec<_>>()
        };
        let days = |days: u64| Some(Duration::from_secs(days * 24 * 3600));
        let forever =
            RetentionLimits { events: None, messages: days(1), delivery_events: None, ..RetentionLimits::default() };
        assert_eq!(cutoffs(forever), ["messages 2026-11-20T03:30:00Z", "inbox 2026-11-18T03:30:00Z"]);
        let all = RetentionLimits { messages: days(30), delivery_events: days(7), ..RetentionLimits::default() };
        assert_eq!(
            cutoffs(all),
            [
                "events 2026-08-23T03:30:00Z",
                "retracts 2026-08-23T03:30:00Z",
                "dead_letters 2026-08-23T03:30:00Z",
                "messages 2026-10-22T03:30:00Z",
                "delivery_events 2026-11-14T03:30:00Z",
                "inbox 2026-11-18T03:30:00Z",
                "notices 2026-08-23T03:30:00Z"
            ]
        );
    }
}
