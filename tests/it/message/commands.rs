//! Commands of an operator to a single message, and Temporal's own cancel. The message ends once, and its history
//! replays.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use temporalio_client::WorkflowCancelOptions;
use tidings_harness::{
    env::has_fired,
    message_env::{MessageEnv, of, order, submission, waits},
    relay::{Act, At, Fault},
    signals::update_json,
    wait::eventually,
};
use tidings_model::{
    message::{command::RetryCommand, contract::RetryResult},
    records::MessageState,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_workflows::message::MessageStage;

const MINUTE: Duration = Duration::from_mins(1);

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_between_attempts_ends_the_message() -> Result<()> {
    let messages = MessageEnv::start(waits(&[Duration::from_hours(1)])).await?;
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    for by_operator in [true, false] {
        let k = of(if by_operator { "operator" } else { "temporal" });
        messages.send(&submission(&k.key)).await?;
        let status = messages.waits(&k).await?;
        assert_eq!(
            (status.state, status.failed, messages.record(&k).await?.state),
            (MessageStage::Deferred, 1, MessageState::Deferred)
        );
        if by_operator {
            let cancelled = messages.tell(&k).cancel(order()).await?;
            assert_eq!(cancelled.closed.map(|closed| closed.outcome), Some(DigestOutcome::Dropped));
        } else {
            messages.workflow(&k).cancel(WorkflowCancelOptions::default()).await?;
        }
        assert_eq!(messages.ended(&k).await?, MessageState::Cancelled);
        messages.replays(&k).await?;
    }
    messages.env.relay.heal();
    let audited =
        messages.env.count("SELECT COUNT(*) FROM audit WHERE action = 'close' AND message IS NOT NULL").await?;
    assert_eq!((messages.env.relay.mails().len(), audited), (0, 2));
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_command_to_a_message_refuses_unknown_fields() -> Result<()> {
    let messages = MessageEnv::start(waits(&[Duration::from_hours(1)])).await?;
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    let k = of("k");
    messages.send(&submission("k")).await?;
    messages.waits(&k).await?;
    for (update, field) in [("retry", "may_dupicate"), ("cancel", "may_duplicate")] {
        let input = json!({"by": "ann", "why": "ticket 812", field: true});
        let refused = update_json(&messages.env.temporal, k.workflow_id(), update, input).await;
        let error = format!("{:?}", refused.err().context("was accepted")?);
        assert!(error.contains(&format!("{field}: is not a field of this command")), "{update}: {error}");
    }
    assert_eq!(messages.record(&k).await?.state, MessageState::Deferred);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_after_the_timer_fired_ends_the_message() -> Result<()> {
    let mut messages = MessageEnv::start(waits(&[Duration::from_secs(5), Duration::from_hours(1)])).await?;
    let k = of("k");
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    messages.send(&submission("k")).await?;
    messages.waits(&k).await?;
    messages.worker = None;
    // With no worker both wait for the same workflow task.
    messages.workflow(&k).cancel(WorkflowCancelOptions::default()).await?;
    let fired = async || Ok(has_fired(&messages.history(&k).await?).then_some(()));
    eventually("the timer fires", MINUTE, fired).await?;
    messages.work()?;
    assert_eq!(messages.ended(&k).await?, MessageState::Cancelled);
    assert!(messages.env.relay.mails().is_empty());
    messages.replays(&k).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_command_starts_the_next_attempt_at_once() -> Result<()> {
    let messages = MessageEnv::start(waits(&[Duration::from_hours(1)])).await?;
    let k = of("k");
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    messages.send(&submission("k")).await?;
    messages.reaches(&k, MessageState::Deferred).await?;
    let answer = messages.tell(&k).retry(RetryCommand { order: order(), may_duplicate: false }).await?;
    assert_eq!((answer, messages.ended(&k).await?), (RetryResult::Queued, MessageState::Sent));
    assert_eq!(messages.env.relay.mails().len(), 1);
    messages.replays(&k).await
}
