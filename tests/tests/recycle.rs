//! A worker gives way to a new one in the same process.

use anyhow::Result;
use temporalio_sdk::{Runtime, runtime::RuntimeOptions};
use tidings::{recycle, registration};
use tidings_tests::stage::{Stage, activities, event, key, settings};
use tidings_workflows::names;
use tokio_util::sync::CancellationToken;

const DIGESTS: usize = 6;
/// Less than two digests have: plan, load, render and send, each.
const ACTIVITIES: u64 = 7;

#[tokio::test(flavor = "multi_thread")]
async fn workers_take_turns_and_what_is_open_meanwhile_is_sent_once() -> Result<()> {
    let stage = Stage::without_worker(settings("instant", "after 3s")).await?;
    let activities = activities(stage.store.clone(), &stage.relay.url(), stage.settings.clone())?;
    let options = registration::digests(names::TASK_QUEUE, activities)?;
    let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
    let shutdown = CancellationToken::new();

    let feeding = async {
        let waiting = key("alerts", "ann");
        stage.events.emit(event(&waiting, "e1")).await?;
        for n in 0..DIGESTS {
            let key = key("activity", &format!("user-{n}"));
            stage.events.emit(event(&key, "e1")).await?;
            stage.completed(&key).await?;
        }
        stage.completed(&waiting).await?;
        shutdown.cancel();
        Ok(())
    };
    let workers = recycle::run(&runtime, &stage.temporal, &options, ACTIVITIES, &shutdown);
    let (workers, ()) = tokio::try_join!(workers, feeding)?;

    assert!(workers >= 3, "{workers} workers for {DIGESTS} digests");
    assert_eq!(left_behind()?, 0, "threads of workers that have ended");
    assert_eq!(stage.relay.mails().len(), DIGESTS + 1);
    let sent = "SELECT COUNT(*) FROM events e JOIN digests d ON d.digest_id = e.digest_id WHERE d.sent_at IS NOT NULL";
    assert_eq!(stage.count(sent).await?, i64::try_from(DIGESTS + 1)?);
    Ok(())
}

/// Each worker of the SDK has a thread that looks at the machine.
fn left_behind() -> Result<usize> {
    let mut threads = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // One that ends meanwhile has no name any more.
        let name = std::fs::read_to_string(thread?.path().join("comm")).unwrap_or_default();
        threads += usize::from(name.starts_with("temporal-real-s"));
    }
    Ok(threads)
}
