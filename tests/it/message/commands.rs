//! What an operator tells a single message, and Temporal's own cancel: it has one end, and history replays.

use std::time::Duration;

use anyhow::Result;
use temporalio_client::WorkflowCancelOptions;
use tidings_harness::{
    post::{Post, of, order, submission, waits},
    relay::{Act, At, Fault},
    stage::{eventually, has_fired},
};
use tidings_model::{
    contract::Outcome,
    message::{command::Retry, contract::Retried},
    records::MessageState,
};
use tidings_needs::needs;

const MINUTE: Duration = Duration::from_secs(60);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_attempts_ends_the_message() -> Result<()> {
    let post = Post::start(waits(&[Duration::from_hours(1)])).await?;
    post.stage.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    for by_operator in [true, false] {
        let k = of(if by_operator { "operator" } else { "temporal" });
        post.send(&submission(&k.key)).await?;
        let status = post.waits(&k).await?;
        assert_eq!(
            (status.state.as_str(), status.failed, post.record(&k).await?.state),
            ("deferred", 1, MessageState::Deferred)
        );
        if by_operator {
            let cancelled = post.tell(&k).cancel(order()).await?;
            assert_eq!(cancelled.closed.map(|closed| closed.outcome), Some(Outcome::Dropped));
        } else {
            post.workflow(&k).cancel(WorkflowCancelOptions::default()).await?;
        }
        assert_eq!(post.ended(&k).await?, MessageState::Cancelled);
        post.replays(&k).await?;
    }
    post.stage.relay.heal();
    let audited = post.stage.count("SELECT COUNT(*) FROM audit WHERE action = 'close' AND message IS NOT NULL").await?;
    assert_eq!((post.stage.relay.mails().len(), audited), (0, 2));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_timer_fired_ends_the_message() -> Result<()> {
    let mut post = Post::start(waits(&[Duration::from_secs(5), Duration::from_hours(1)])).await?;
    let k = of("k");
    post.stage.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    post.send(&submission("k")).await?;
    post.waits(&k).await?;
    post.worker = None;
    // With no worker both wait for the same workflow task.
    post.workflow(&k).cancel(WorkflowCancelOptions::default()).await?;
    let fired = async || Ok(has_fired(&post.history(&k).await?).then_some(()));
    eventually("the timer fires", MINUTE, fired).await?;
    post.work()?;
    assert_eq!(post.ended(&k).await?, MessageState::Cancelled);
    assert!(post.stage.relay.mails().is_empty());
    post.replays(&k).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_command_starts_the_next_attempt_at_once() -> Result<()> {
    let post = Post::start(waits(&[Duration::from_hours(1)])).await?;
    let k = of("k");
    post.stage.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    post.send(&submission("k")).await?;
    post.reaches(&k, MessageState::Deferred).await?;
    let answer = post.tell(&k).retry(Retry { order: order(), may_duplicate: false }).await?;
    assert_eq!((answer, post.ended(&k).await?), (Retried::Queued, MessageState::Sent));
    assert_eq!(post.stage.relay.mails().len(), 1);
    post.replays(&k).await
}
