//! A worker of the SDK gives way to a new one in the same process before it has grown too large.

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

/// Activities that a worker begins, local ones, too, before a new one takes its place. Version 1.1.1 of the SDK keeps some 330
/// bytes of each as long as the worker is there (`ActivityHalf::task_tokens_to_cancels`), and a digest has four: these are
/// 25,000 digests, and 33 MB.
pub const ACTIVITIES: u64 = 100_000;

/// Runs workers with these options, one after the other, until `shutdown` is cancelled. Each ends as at a shutdown once it has
/// begun so many `activities`, and a new one begins what comes from then on: a delivery past the dot may take the old one minutes.
/// What it had in memory, the new one replays from the histories.
///
/// Returns how many there were, once all of them have ended.
///
/// # Errors
/// One cannot be made, or fails.
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
            // The SDK leaves that out: the connection would keep slots and a thread of the worker, and go on announcing it.
            if let Err(error) = client.connection().workers().finalize_unregister(name) {
                tracing::warn!(%error, "something of a worker that has ended stays in memory");
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

/// Says when a worker has begun enough activities.
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
        // It wraps around behind the last one, which has said so.
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.enough.cancel();
        }
        next.run(input)
    }
}
