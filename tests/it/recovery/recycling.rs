//! A worker gives way to a new one in the same process.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidings::{recycle, registration, sdk};
use tidings_harness::{
    env::{Env, activities, event, key, settings},
    relay::{Act, At, Fault},
    wait::eventually,
};
use tidings_model::names;
use tidings_needs::needs;
use tokio_util::sync::CancellationToken;

const DIGESTS: usize = 6;
/// Less than two digests have: plan, load, render and send, each.
const ACTIVITIES: u64 = 7;
/// Longer than a worker that ends gives what is under way.
const SLOW: Duration = Duration::from_secs(30);

#[needs(temporal, own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn recycled_workers_send_every_open_window_once() -> Result<()> {
    let env = Env::without_worker(settings("instant", "after 3s")).await?;
    let activities = activities(env.store.clone(), &env.relay.url(), env.settings.clone())?;
    let options = registration::digest_worker(names::TASK_QUEUE, activities)?;
    let runtime = sdk::runtime()?;
    let shutdown = CancellationToken::new();

    let feeding = async {
        let (waiting, slow) = (key("alerts", "ann"), key("activity", "slow"));
        env.relay.fault(Fault::new(At::Dot, Act::Slow(SLOW)).to("slow@dev.invalid"));
        env.events.emit(event(&slow, "e1")).await?;
        eventually("the slow delivery is past the dot", SLOW, async || {
            let past = "SELECT COUNT(*) FROM attempts WHERE past_the_dot_at IS NOT NULL";
            Ok((env.count(past).await? == 1).then_some(()))
        })
        .await?;
        env.events.emit(event(&waiting, "e1")).await?;
        for n in 0..DIGESTS {
            let key = key("activity", &format!("user-{n}"));
            env.events.emit(event(&key, "e1")).await?;
            env.completed(&key).await?;
        }
        env.completed(&waiting).await?;
        ensure!(env.relay.arrival("slow@dev.invalid").is_none(), "the others waited for a slow delivery");
        env.completed(&slow).await?;
        shutdown.cancel();
        Ok(())
    };
    let workers = recycle::run(&runtime, &env.temporal, &options, ACTIVITIES, &shutdown);
    let (workers, ()) = tokio::try_join!(workers, feeding)?;

    assert!(workers >= 3, "{workers} workers for {DIGESTS} digests");
    assert_eq!(left_behind()?, 0, "threads of workers that have ended");
    assert_eq!(env.relay.mails().len(), DIGESTS + 2);
    let sent = "SELECT COUNT(*) FROM events e JOIN digests d ON d.digest_id = e.digest_id WHERE d.sent_at IS NOT NULL";
    assert_eq!(env.count(sent).await?, i64::try_from(DIGESTS + 2)?);
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
