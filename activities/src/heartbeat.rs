//! Heartbeats of a delivery, through which Temporal tells it of a cancel.

use std::time::Duration;

use temporalio_sdk::activities::ActivityContext;

/// Well under the heartbeat timeout: neither a busy moment nor the SDK's throttling looks like a dead worker.
const INTERVAL: Duration = Duration::from_secs(3);

/// Sends heartbeats until `work` is done.
///
/// The first heartbeat comes late. Most deliveries are over by then, and the server writes each heartbeat to its database.
pub(crate) async fn during<T>(ctx: &ActivityContext, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = beat(ctx) => match never {},
    }
}

async fn beat(ctx: &ActivityContext) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(INTERVAL).await;
        // The server judges a missing heartbeat; a failure to send one is no reason to stop the work.
        ctx.record_heartbeat(()).await.ok();
    }
}
