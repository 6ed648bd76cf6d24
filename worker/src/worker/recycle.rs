//! Replaces a worker in the same process, because the SDK's grows without limit.
//!
//! In temporalio-sdk 1.1.1, a worker keeps about 330 bytes per activity for its lifetime, in
//! `ActivityHalf::task_tokens_to_cancels`. Once a completed activity is removed from this map, delete this
//! module and run the worker directly.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use temporalio_client::Client;
use temporalio_sdk::{
    WorkerOptions,
    interceptors::{ActivityInboundInterceptor, ExecuteActivityInput, ExecuteActivityOutput, Next},
};
use temporalio_sdk_core::CoreRuntime;
use tokio_util::sync::CancellationToken;

use super::sdk;

/// Replace a worker after this many activities, including local ones. This is 25,000 digests with four
/// activities each, and leaks 33 MB.
pub const ACTIVITIES: u64 = 100_000;

/// Runs one worker after the other until `shutdown` is cancelled.
///
/// A worker shuts down once it has started this number of `activities`. The new worker takes all further tasks
/// immediately and replays runs from their histories. Meanwhile the old one completes its own tasks, e.g. a
/// delivery past the final dot, which may take minutes.
///
/// Returns the number of workers, once all have ended.
///
/// # Errors
/// A worker cannot be created, or fails.
pub async fn run(
    runtime: &CoreRuntime,
    client: &Client,
    options: &WorkerOptions,
    activities: u64,
    shutdown: &CancellationToken,
) -> anyhow::Result<usize> {
    let mut workers = 0;
    let mut ending = FuturesUnordered::<LocalBoxFuture<'_, anyhow::Result<()>>>::new();
    while !shutdown.is_cancelled() {
        let enough = shutdown.child_token();
        let mut counted = options.clone();
        counted
            .activity_inbound_interceptor(ActivityCounter { left: AtomicU64::new(activities), enough: enough.clone() });
        let mut worker = sdk::create_worker(runtime, client, counted)?;
        workers += 1;
        let (stop, name) = (worker.shutdown_handle(), worker.worker_instance_key());
        let mut running = Box::pin(async move { worker.run().await });
        loop {
            tokio::select! {
                ended = &mut running => return Ok(ended.map(|()| workers)?),
                Some(ended) = ending.next() => ended?,
                () = enough.cancelled() => break,
            }
        }
        stop();
        let end = async move {
            running.await?;
            // temporalio-sdk 1.1.1 does not unregister a worker that ends. The connection would keep its
            // slots and a thread, and would still report it to the server. This is fixed once `Worker::run`
            // unregisters the worker itself.
            if let Err(error) = client.connection().workers().finalize_unregister(name) {
                tracing::warn!(%error, "worker leaked memory after shutdown");
            }
            Ok(())
        };
        ending.push(end.boxed_local());
        if !shutdown.is_cancelled() {
            tracing::info!(task_queue = options.task_queue, activities, "worker replaced");
        }
    }
    ending.try_collect::<()>().await?;
    Ok(workers)
}

struct ActivityCounter {
    left: AtomicU64,
    enough: CancellationToken,
}

impl ActivityInboundInterceptor for ActivityCounter {
    fn execute_activity<'a>(
        &'a self,
        input: ExecuteActivityInput,
        next: Next<'a, ExecuteActivityInput, ExecuteActivityOutput<'a>>,
    ) -> ExecuteActivityOutput<'a> {
        // The counter may wrap around later, because `enough` stays cancelled.
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.enough.cancel();
        }
        next.run(input)
    }
}
