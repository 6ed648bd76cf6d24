//! Events that a failed digest returned, in simulated time: a recipient's server defers for days, and no other event comes
//! (rule 25).

use std::{
    fs::{self, File},
    io,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tempfile::TempDir;
use temporalio_client::{WorkflowQueryOptions, WorkflowTerminateOptions};
use tidings_harness::{
    env::{Env, event, key, order, settings},
    relay::{Act, At, Fault, events_by_message},
    time_skipping::TimeSkipping,
    wait::eventually,
};
use tidings_model::{Key, names, records::DigestRecord, troubled_run::RunResolution, window::DigestOutcome};
use tidings_needs::needs;
use tidings_operations::recover::RunRecovery;
use tidings_store::prelude::*;
use tidings_workflows::{Digest, DigestStage, DigestStatus};
use tracing::Level;

const UNDELIVERED: &str = "SELECT COUNT(*) FROM digests WHERE claimed_at IS NOT NULL AND closed_at IS NULL";
const WITHOUT_AN_END: &str = "SELECT COUNT(*) FROM events JOIN digests USING (digest_id)
    WHERE closed_at IS NULL OR events.returned_at IS NOT NULL";

const EVENTS_OF_THE_LAST: &str = "SELECT COUNT(*) FROM events
    WHERE digest_id = (SELECT digest_id FROM digests ORDER BY opened_at DESC LIMIT 1)";

/// A key with one event whose recipient's server defers.
struct Deferral {
    env: TimeSkipping,
    key: Key,
    begins: Timestamp,
}

impl Deferral {
    async fn start(cadence: &str) -> Result<Self> {
        let mut settings = settings(cadence, "instant");
        settings.digests.get_mut("activity").context("no such type")?.zone = Some("Europe/Berlin".to_owned());
        let env = TimeSkipping::start(settings).await?;
        let key = key("activity", "ann");
        env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.7.1 greylisted".into())));
        env.emit(&key, "the only one").await?;
        let begins = env.server.now().await?;
        Ok(Self { env, key, begins })
    }

    /// Lets hours pass, and looks each hour that the key has one undelivered digest at most.
    async fn pass(&self, hours: i64) -> Result<()> {
        let begins = self.env.server.now().await?;
        for hour in 1..=hours {
            self.env.server.sleep_until(begins + hour.hours()).await?;
            let undelivered = self.env.count(UNDELIVERED).await?;
            ensure!(undelivered <= 1, "{undelivered} undelivered digests after {hour} hours");
        }
        Ok(())
    }

    /// The key's digests, the first one first.
    async fn digests(&self) -> Result<Vec<DigestRecord>> {
        let mut digests = self.env.store.digests(&self.key, 10).await?;
        digests.reverse();
        Ok(digests)
    }

    async fn outcomes(&self) -> Result<Vec<DigestOutcome>> {
        let ended = |digest: DigestRecord| Ok(digest.closed.context("a digest has no end")?.outcome);
        self.digests().await?.into_iter().map(ended).collect()
    }

    async fn status(&self) -> Result<DigestStatus> {
        let workflow = self.env.server.client.get_workflow_handle::<Digest>(self.key.workflow_id());
        Ok(workflow.query(Digest::status, (), WorkflowQueryOptions::default()).await?)
    }

    /// Waits until the last attempt of a digest has failed and its events wait for their window.
    async fn returned(&self) -> Result<DigestStatus> {
        eventually("the events wait for their window", Duration::from_mins(1), async || {
            self.env.server.sleep(Duration::from_mins(30)).await?;
            Ok(Some(self.status().await?).filter(|status| status.returned > 0 && status.due_at.is_some()))
        })
        .await
    }
}

/// The time of each digest's claim, in minutes after the return of the digest before.
fn minutes_after_the_return(digests: &[DigestRecord]) -> Result<Vec<i64>> {
    let waits = digests.windows(2).map(|pair| {
        let returned_at = pair[0].closed_at.context("never closed")?;
        Ok(pair[1].due_at.duration_since(returned_at).as_mins())
    });
    waits.collect()
}

#[needs(test_server, own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn an_event_deferred_for_days_ends_as_failed_after_two_returns() -> Result<()> {
    let folder = TempDir::new()?;
    let log = folder.path().join("log");
    let errors = tracing_subscriber::fmt().with_max_level(Level::ERROR).with_ansi(false);
    tracing::subscriber::set_global_default(errors.with_writer(Arc::new(File::create(&log)?)).finish())?;
    let alerts = || Ok::<_, io::Error>(fs::read_to_string(&log)?.matches("alert=digest_failed").count());
    for cadence in ["daily 08:00", "after 10m"] {
        let alerts_before = alerts()?;
        let deferral = Deferral::start(cadence).await?;
        deferral.pass(72).await?;
        deferral.env.relay.heal();
        deferral.pass(48).await?;
        let digests = deferral.digests().await?;
        // The three digests of a calendar may take longer than three days: the last one then meets a server that takes mail.
        let outcomes = deferral.outcomes().await?;
        assert!(
            matches!(
                outcomes[..],
                [DigestOutcome::Failed, DigestOutcome::Failed, DigestOutcome::Failed | DigestOutcome::Sent]
            ),
            "{outcomes:?}"
        );
        let sent = outcomes.last() == Some(&DigestOutcome::Sent);
        assert_eq!(alerts()? - alerts_before, if sent { 2 } else { 3 }, "{cadence}");
        assert_eq!(deferral.env.relay.mails().len(), usize::from(sent), "{cadence}");
        assert_eq!(deferral.env.count(EVENTS_OF_THE_LAST).await?, 1, "{cadence}");
        assert_eq!(deferral.env.count(WITHOUT_AN_END).await?, 0, "{cadence}");
        if cadence == "after 10m" {
            assert!(!sent, "six attempts take eleven hours, and the wait takes eight");
            assert_eq!(minutes_after_the_return(&digests)?, [480, 480]);
        } else {
            for pair in digests.windows(2) {
                assert_eq!(pair[1].due_at.duration_since(pair[0].due_at), SignedDuration::from_hours(24));
            }
        }
        // The key goes on with its next event.
        deferral.env.emit(&deferral.key, "another").await?;
        deferral.pass(48).await?;
        assert_eq!(deferral.outcomes().await?.last(), Some(&DigestOutcome::Sent), "{cadence}");
    }
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn an_event_deferred_for_a_day_is_in_the_next_digest() -> Result<()> {
    for cadence in ["daily 08:00", "after 10m", "instant", "sliding 5m max 1h"] {
        let deferral = Deferral::start(cadence).await?;
        let status = deferral.returned().await?;
        assert_eq!((status.state, status.pending, status.returned), (DigestStage::Collecting, 1, 1), "{cadence}");
        assert!(status.why.starts_with("events of a failed digest: "), "{}", status.why);
        deferral.env.relay.heal();
        let due_at = status.due_at.context("no time")?;
        deferral.env.server.sleep_until(due_at - 1.minute()).await?;
        assert_eq!(deferral.env.relay.count(), 0, "{cadence}: before the time that status shows");
        deferral.pass(2).await?;
        assert_eq!(deferral.outcomes().await?, [DigestOutcome::Failed, DigestOutcome::Sent], "{cadence}");
        let mails = deferral.env.relay.mails();
        assert_eq!(events_by_message(&mails)?.into_values().collect::<Vec<_>>(), [1], "{cadence}");
        assert!(deferral.begins < due_at);
    }
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_comes_meanwhile_takes_the_returned_one_along() -> Result<()> {
    let deferral = Deferral::start("after 10m").await?;
    deferral.returned().await?;
    deferral.env.relay.heal();
    deferral.env.emit(&deferral.key, "another").await?;
    deferral.pass(1).await?;
    assert_eq!(deferral.outcomes().await?, [DigestOutcome::Failed, DigestOutcome::Sent]);
    assert_eq!(deferral.digests().await?[1].items, 2);
    deferral.pass(24).await?;
    assert_eq!(deferral.env.relay.count(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_opens_the_window_of_returned_events() -> Result<()> {
    // Neither the first window nor that of the returned event is due during the test.
    let mut settings = settings("cron 0 0 1 1 *", "instant");
    settings.streams.bulk.retry_delays = vec![Duration::from_secs(1)];
    let env = Env::start(settings).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.7.1 greylisted".into())).times(2));
    let key = key("activity", "ann");
    env.events.emit(event(&key, "the only one")).await?;
    env.update(&key, Digest::flush, order()).await?;
    let waiting = |status: &DigestStatus| status.returned > 0 && status.due_at.is_some();
    let before = env.status_when(&key, "the event waits for its window", waiting).await?;
    env.workflow(&key).terminate(WorkflowTerminateOptions::default()).await?;

    let (temporal, events, task_queue) = (&env.temporal, &env.events, names::TASK_QUEUE);
    let recovery = RunRecovery { temporal, events, task_queue, store: &*env.store, key: &key, run_id: None };
    assert_eq!(recovery.dry_run().await?.returned, 1);
    assert_eq!(recovery.run(&order(), RunResolution::ByHand).await?.returned, 1);
    let after = env.status_when(&key, "the event waits for its window again", waiting).await?;
    assert_eq!((after.pending, after.due_at, after.why), (1, before.due_at, before.why));
    env.update(&key, Digest::flush, order()).await?;
    env.completed(&key).await?;
    assert_eq!(events_by_message(&env.relay.mails())?.into_values().collect::<Vec<_>>(), [1]);
    assert_eq!(env.count(WITHOUT_AN_END).await?, 0);
    Ok(())
}
