//! Upkeep, end to end: a schedule starts it, what is too old goes to the archive, and nothing goes twice or too early.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use jiff::{
    SignedDuration, Timestamp,
    civil::{Time, time},
    tz::TimeZone,
};
use temporalio_client::{
    Client, RpcOptions, UntypedQuery, WorkflowCancelOptions, WorkflowDescribeOptions, WorkflowExecutionStatus,
    WorkflowGetResultOptions, WorkflowHandle, WorkflowQueryOptions,
    schedules::{PauseScheduleOptions, ScheduleDescription, ScheduleHandle},
};
use temporalio_common::data_converters::RawValue;
use tidings::retention_schedule::{self, RetentionSchedule};
use tidings_activities::retention::RetentionLimits;
use tidings_harness::{
    env::{Env, event, key, settings},
    server::DevServer,
    wait::eventually,
};
use tidings_model::{Retract, names, retention::RetentionKind};
use tidings_needs::needs;
use tidings_store::{archive::Archive, prelude::*};
use tidings_workflows::{DigestStage, RetentionRun, retention::RetentionReport};

const MINUTE: Duration = Duration::from_mins(1);

fn nightly(at: Time) -> RetentionSchedule<'static> {
    RetentionSchedule { task_queue: names::TASK_QUEUE, at }
}

/// Everything for an hour, and into `folder` then.
fn an_hour(folder: &Path) -> RetentionLimits {
    let hour = Some(Duration::from_hours(1));
    RetentionLimits {
        events: hour,
        messages: hour,
        delivery_events: hour,
        archive: Some(Archive::new(folder.to_owned())),
        ..RetentionLimits::default()
    }
}

fn two_hours_ago() -> Timestamp {
    Timestamp::now() - SignedDuration::from_hours(2)
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("e{n:05}")).collect()
}

/// Those that are whole: a name that begins with a dot is of one that is not.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for day in fs::read_dir(folder)? {
        for file in fs::read_dir(day?.path())? {
            let file = file?;
            if !file.file_name().as_encoded_bytes().starts_with(b".") {
                files.push(file.path());
            }
        }
    }
    Ok(files)
}

/// The event ids of all lines, sorted.
fn archived(folder: &Path) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for file in files(folder)? {
        for line in io::read_to_string(GzDecoder::new(fs::File::open(file)?))?.lines() {
            let line: serde_json::Value = serde_json::from_str(line)?;
            ids.push(line["event_id"].as_str().context("an event")?.to_owned());
        }
    }
    ids.sort();
    Ok(ids)
}

async fn report(run: &WorkflowHandle<Client, RetentionRun>) -> Result<RetentionReport> {
    let result = run.get_result(WorkflowGetResultOptions::default());
    Ok(tokio::time::timeout(MINUTE, result).await.context("upkeep did not complete")??)
}

/// Pauses until the schedule is paused: the server carries out a pause and an update one after the other, later. An
/// update that was sent just before may come second, and replaces the whole state.
async fn pause(schedule: &ScheduleHandle<Client>, note: &str) -> Result<ScheduleDescription> {
    let paused = async || {
        let found = schedule.describe(RpcOptions::default()).await?;
        if found.paused() {
            return Ok(Some(found));
        }
        schedule.pause(Some(note), PauseScheduleOptions::default()).await?;
        Ok(None)
    };
    eventually("the schedule is paused", MINUTE, paused).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_is_created_once_and_stays_paused_across_restarts() -> Result<()> {
    let server = DevServer::start().await?;
    let client = server.client().await?;
    let missing = retention_schedule::trigger_run(&client, names::TASK_QUEUE).await.err().context("nobody made it")?;
    ensure!(missing.to_string().contains("`tidings worker` creates it"), "{missing}");
    let schedule = client.get_schedule_handle(names::retention_schedule(names::TASK_QUEUE));
    let describe = async || schedule.describe(RpcOptions::default()).await;
    let (one, other) = (nightly(time(3, 30, 0, 0)), nightly(time(3, 30, 0, 0)));
    tokio::try_join!(one.ensure(&client), other.ensure(&client))?;
    let made = describe().await?;
    let next: Vec<_> = made.future_action_times();
    let next = Timestamp::try_from(*next.first().context("it never starts")?)?.to_zoned(TimeZone::UTC).time();
    ensure!(next == time(3, 30, 0, 0), "{next}");
    let policies = made.raw().schedule.clone().and_then(|schedule| schedule.policies).unwrap_or_default();
    ensure!(policies.catchup_window.is_some_and(|window| window.seconds == 12 * 3_600), "no year of nights at once");
    ensure!(policies.overlap_policy == 1, "skip");

    let paused = pause(&schedule, "the disk is being moved").await?;
    nightly(time(3, 30, 0, 0)).ensure(&client).await?;
    let after: Option<SystemTime> = describe().await?.update_time();
    ensure!(after == paused.update_time(), "what is as wanted is not touched");

    let (one, other) = (nightly(time(4, 15, 0, 0)), nightly(time(4, 15, 0, 0)));
    tokio::try_join!(one.ensure(&client), other.ensure(&client))?;
    let moved = describe().await?;
    ensure!(moved.paused() && moved.note() == Some("the disk is being moved"), "{:?}", moved.note());
    let next = Timestamp::try_from(*moved.future_action_times().first().context("it never starts")?)?;
    let next = next.to_zoned(TimeZone::UTC).time();
    ensure!(next == time(4, 15, 0, 0), "{next}");

    let left = RetentionSchedule { task_queue: "left", at: time(3, 30, 0, 0) };
    left.ensure(&client).await?;
    let left = client.get_schedule_handle(names::retention_schedule("left"));
    pause(&left, "an operator's").await?;
    // `task_queue` was another one before, and no worker serves it any more.
    RetentionSchedule { task_queue: "before", at: time(3, 30, 0, 0) }.ensure(&client).await?;
    let before = client.get_schedule_handle(names::retention_schedule("before"));
    let gone = async || {
        nightly(time(4, 15, 0, 0)).delete_abandoned(&client).await?;
        Ok(before.describe(RpcOptions::default()).await.is_err().then_some(()))
    };
    eventually("the schedule of the queue before is deleted", MINUTE, gone).await?;
    describe().await?;
    ensure!(left.describe(RpcOptions::default()).await?.paused(), "one that an operator paused stays");
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn expired_records_are_archived_and_open_windows_are_kept() -> Result<()> {
    let mut env = Env::start(settings("after 1s", "after 1h")).await?;
    let folder = env.folder.path().join("archive");
    fs::create_dir(&folder)?;
    let worker = env.start_retention(an_hour(&folder))?;
    let (old, open) = (key("activity", "old"), key("alerts", "open"));
    env.sent_before(&old, 0, &ids(700), two_hours_ago()).await?;
    let young = ["young".to_owned()];
    env.sent_before(&old, 1, &young, Timestamp::now()).await?;
    env.events.emit(event(&open, "pending")).await?;
    let collecting = async || Ok((env.status(&open).await?.state == DigestStage::Collecting).then_some(()));
    eventually("the window is open", MINUTE, collecting).await?;

    nightly(time(3, 30, 0, 0)).ensure(&env.temporal).await?;
    let by_hand = async || {
        let id = retention_schedule::trigger_run(&env.temporal, names::TASK_QUEUE).await?;
        report(&env.temporal.get_workflow_handle(id)).await
    };
    let report = by_hand().await?;
    let counts: Vec<_> = report.kinds.iter().map(|(kind, tally)| (*kind, tally.purged, tally.archived)).collect();
    ensure!(counts[..2] == [(RetentionKind::Events, 700, 700), (RetentionKind::Retracts, 0, 0)], "{counts:?}");
    ensure!(archived(&folder)? == ids(700), "each once");
    ensure!(env.count("SELECT COUNT(*) FROM events WHERE event_id = 'young'").await? == 1);
    ensure!(env.count("SELECT COUNT(*) FROM events").await? == 1);
    ensure!(env.status(&open).await?.state == DigestStage::Collecting, "the window goes on");
    let report = by_hand().await?;
    ensure!(report.kinds[&RetentionKind::Events].purged == 0, "nothing is left: {report}");
    worker.stop()?;
    env.stop_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retract_outlives_the_open_window_that_may_need_it() -> Result<()> {
    let mut env = Env::start(settings("after 1s", "after 1h")).await?;
    env.settings.names.digests.insert("notes".to_owned(), "alerts".to_owned());
    let worker =
        env.start_retention(RetentionLimits { events: Some(Duration::from_millis(1)), ..RetentionLimits::default() })?;
    let (open, idle, former) = (key("alerts", "open"), key("alerts", "idle"), key("notes", "open"));
    env.events.emit(event(&open, "pending")).await?;
    let collecting = async || Ok((env.status(&open).await?.state == DigestStage::Collecting).then_some(()));
    eventually("the window is open", MINUTE, collecting).await?;
    for (key, id, at) in [
        (&open, "needed", Timestamp::now()),
        (&open, "was too old before the window opened", two_hours_ago()),
        (&idle, "idle", two_hours_ago()),
        (&former, "needed under another name", Timestamp::now()),
    ] {
        env.store.put_retracts(key, &[Retract::Event(id.to_owned())], at).await?;
    }
    env.run_retention().await?;
    let report = report(&env.retention_run()).await?;
    ensure!(report.kinds[&RetentionKind::Retracts].purged == 2, "{report}");
    ensure!(env.count("SELECT COUNT(*) FROM retracts WHERE event_id LIKE 'needed%'").await? == 2);
    worker.stop()?;
    env.stop_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn the_next_run_completes_an_interrupted_purge() -> Result<()> {
    let env = Env::without_worker(settings("after 1s", "after 1h")).await?;
    let (folder, elsewhere) = (env.folder.path().join("archive"), env.folder.path().join("elsewhere"));
    fs::create_dir(&folder)?;
    let key = key("activity", "old");
    let ids = ids(20_000);
    for (number, page) in (0..).zip(ids.chunks(1_000)) {
        env.sent_before(&key, number, page, two_hours_ago()).await?;
    }
    let worker = env.start_retention(an_hour(&folder))?;
    env.run_retention().await?;
    let begun = async || Ok((!files(&folder)?.is_empty()).then_some(()));
    eventually("the first batch is archived", MINUTE, begun).await?;
    // The disk goes away, and with it the next batch's attempts.
    fs::rename(&folder, &elsewhere)?;
    // As the Temporal UI shows it.
    let stuck = async || {
        let details = UntypedQuery::new("__temporal_workflow_metadata");
        let run = env.retention_run();
        let asked = run.query(details, RawValue::new(Vec::new()), WorkflowQueryOptions::default());
        let said: String = asked.await?.payloads.iter().map(|payload| String::from_utf8_lossy(&payload.data)).collect();
        Ok(said.contains("Trouble: ").then_some(said))
    };
    let said = eventually("it says what is wrong", MINUTE, stuck).await?;
    ensure!(said.contains("archive") && said.contains("nothing is deleted"), "{said}");
    let done = env.retention_run().query(RetentionRun::status, (), WorkflowQueryOptions::default()).await?;
    let left = env.count("SELECT COUNT(*) FROM events").await?;
    ensure!(left > 0 && i64::try_from(done.kinds[&RetentionKind::Events].purged)? + left == 20_000, "{done:?}, {left}");
    env.retention_run().cancel(WorkflowCancelOptions::default()).await?;
    let cancelled = async || {
        let status = env.retention_run().describe(WorkflowDescribeOptions::default()).await?.status();
        Ok((status == WorkflowExecutionStatus::Canceled).then_some(()))
    };
    eventually("it is cancelled", MINUTE, cancelled).await?;
    worker.stop()?;

    fs::rename(&elsewhere, &folder)?;
    let _worker = env.start_retention(an_hour(&folder))?;
    env.run_retention().await?;
    let report = report(&env.retention_run()).await?;
    ensure!(i64::try_from(report.kinds[&RetentionKind::Events].archived)? == left, "{report}");
    ensure!(env.count("SELECT COUNT(*) FROM events").await? == 0);
    ensure!(archived(&folder)? == ids, "each once");
    Ok(())
}
