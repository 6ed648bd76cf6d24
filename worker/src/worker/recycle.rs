//! Replacement of a worker by a new one in the same process, because the SDK's worker grows without limit.
//!
//! The fault is in temporalio-sdk 1.1.1: a worker keeps some 330 bytes of each activity for its lifetime, in
//! `ActivityHalf::task_tokens_to_cancels`. The fault is fixed when an activity's completion removes its entry from that map;
//! then delete this module and run the worker directly.

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

/// Activities, including local ones, that a worker begins before a new worker replaces the old one. A digest has four, so these
/// are 25,000 digests and 33 MB.
pub const ACTIVITIES: u64 = 100_000;

/// Runs workers with these options, one after the other, until `shutdown` is cancelled.
///
/// A worker shuts down once it has begun this number of `activities`. The new worker takes all further tasks at once, while the
/// old one completes its own: a delivery past the dot may take minutes. The new worker replays runs from their histories.
///
/// Returns the number of workers, once all of them have ended.
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
        counted.activity_inbound_interceptor(Count { left: AtomicU64::new(activities), enough: enough.clone() });
        let mut worker = sdk::worker(runtime, client, counted)?;
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
            // temporalio-sdk 1.1.1 does not unregister a worker that ends. The connection would keep the worker's slots and a
            // thread, and still report the worker to the server. Fixed when `Worker::run` unregisters the worker itself.
            if let Err(error) = client.connection().workers().finalize_unregister(name) {
                tracing::warn!(%error, "part of an ended worker stays in memory");
            }
            Ok(())
        };
        ending.push(end.boxed_local());
        if !shutdown.is_cancelled() {
            tracing::info!(task_queue = options.task_queue, activities, "a new worker takes over");
        }
    }
    ending.try_collect::<()>().await?;
    Ok(workers)
}

/// The counter of a worker's activities, which cancels `enough` at zero.
struct Count {
    left: AtomicU64,
    enough: CancellationToken,
}

impl ActivityInboundInterceptor for Count {
    fn execute_activity<'a>(
        &'a self,
        input: ExecuteActivityInput,
        next: Next<'a, ExecuteActivityInput, ExecuteActivityOutput<'a>>,
    ) -> ExecuteActivityOutput<'a> {
        // The counter may wrap around afterwards, because `enough` stays cancelled.
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.enough.cancel();
        }
        next.run(input)
    }
}
