//! Single messages, end to end: one email for one key, the same bytes in every attempt, nothing after a cancel, and no
//! delay by a flood of digests.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use temporalio_client::WorkflowStartOptions;
use temporalio_common::{UntypedWorkflow, data_converters::RawValue};
use tidings::registration;
use tidings_activities::{CancellableResult, message};
use tidings_harness::{
    env::{Env, event, key, settings},
    message_env::{ANN, MessageEnv, of, order, submission, waits},
    relay::{Act, At, Fault, Relay},
    wait::{eventually, wait_for_emails},
    worker::Running,
};
use tidings_model::{
    Provider,
    message::{
        command::RetryCommand,
        contract::{AttemptResult, MessageSendInput, RetryResult},
    },
    names,
    records::{MessageState, SuppressionReason},
    settings::{DeliveryGuarantee, RelaySettings, StreamName},
    step::SendAnswer,
    window::DigestOutcome,
};
use tidings_needs::needs;
use tidings_operations::submit::{MessageSubmission, SubmissionContent, SubmissionRecipient, SubmitError};
use tidings_services::StepError;
use tidings_store::prelude::*;

const MINUTE: Duration = Duration::from_mins(1);

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn one_message_key_makes_one_email_however_often_it_is_sent() -> Result<()> {
    let messages = MessageEnv::start(waits(&[])).await?;
    let (key, text) = ("order-12345-confirmation", "Thank you, Ann. Your order 12345 is on its way.\n");
    let content =
        SubmissionContent::Parts { subject: "Your order 12345".to_owned(), text: text.to_owned(), html: None };
    let handed_over = MessageSubmission { content, ..submission(key) };
    let (first, second) = tokio::try_join!(messages.send(&handed_over), messages.send(&handed_over))?;
    assert_eq!(first.message.id, second.message.id);
    assert_eq!(messages.ended(&of(key)).await?, MessageState::Sent);

    let late = messages.send(&handed_over).await?;
    assert!(late.again && late.message.state == MessageState::Sent);
    assert_eq!((late.message.id, &late.message.subject), (first.message.id, &first.message.subject));
    let other = MessageSubmission { reply_to: Some("help@example.com".parse()?), ..handed_over.clone() };
    assert!(matches!(messages.accept(&other).await, Err(SubmitError::OtherContent)));

    let history: Vec<u8> = messages.history(&of(key)).await?.iter().flat_map(prost::Message::encode_to_vec).collect();
    assert!(!contains(&history, ANN) && !contains(&history, "on its way"), "no address and no body is in history");
    assert!(contains(&history, "message_send"), "and this is how it would be found");
    let [mail] = &messages.env.relay.mails()[..] else { panic!("not one mail") };
    assert_eq!(
        (mail.to.as_slice(), mail.header("X-Tidings-Message")?, mail.header("Subject")?),
        (&[ANN.to_owned()][..], first.message.id.to_string(), "Your order 12345".to_owned())
    );
    let bytes = mail.bytes();
    let parsed = mail_parser::MessageParser::new().parse(&bytes).context("no mail")?;
    assert_eq!(parsed.body_text(0).as_deref().map(str::trim_end), Some(text.trim_end()));
    assert!(mail.header("List-Id").is_err());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_suppressed_address_is_refused_at_once_with_the_reason() -> Result<()> {
    let mut messages = MessageEnv { worker: None, env: Env::without_worker(waits(&[])).await? };
    messages.send(&submission("before")).await?;
    messages.suppress("bo@example.net", SuppressionReason::Complaint).await?;
    messages.suppress(ANN, SuppressionReason::HardBounce).await?;
    for (address, stream, refused) in [
        ("Ann@Example.net", StreamName::Transactional, Some(SuppressionReason::HardBounce)),
        (ANN, StreamName::Bulk, Some(SuppressionReason::HardBounce)),
        ("bo@example.net", StreamName::Bulk, Some(SuppressionReason::Complaint)),
        ("bo@example.net", StreamName::Transactional, None),
    ] {
        let to = SubmissionRecipient::Address { address: address.parse()?, name: String::new() };
        let answer =
            messages.accept(&MessageSubmission { to, stream, ..submission(&format!("{address} {stream}")) }).await;
        let reason = match &answer {
            Err(SubmitError::Suppressed { reason }) => Some(*reason),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        };
        assert_eq!(reason, refused, "{stream}");
    }
    assert!(messages.accept(&submission("before")).await?.again, "what is in the outbox is answered for");
    messages.work()?;
    assert_eq!(messages.ended(&of("before")).await?, MessageState::Suppressed);
    assert!(messages.env.relay.mails().is_empty());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_message_is_refused_with_the_field_that_is_wrong() -> Result<()> {
    let messages = MessageEnv { worker: None, env: Env::without_worker(settings("after 1s", "after 1s")).await? };
    let template =
        |name: &str| SubmissionContent::Template { name: name.to_owned(), variables: serde_json::Map::new() };
    for (wrong, says) in [
        (submission(&"ü".repeat(50)), "the limit is 255"),
        (MessageSubmission { content: template("nothing"), ..submission("k") }, "unknown template \"nothing\""),
    ] {
        let error = messages.accept(&wrong).await.err().context(says)?.to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(messages.env.store.message(of("k").message_id()).await?.is_none());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn transient_failures_are_retried_with_the_same_bytes() -> Result<()> {
    let messages = MessageEnv::start(waits(&[Duration::from_secs(1); 3])).await?;
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(1));
    messages.env.relay.fault(Fault::new(At::Dot, Act::KeepAndReply("451 4.3.0 later".into())).times(1));
    messages.send(&submission("k")).await?;
    assert_eq!(messages.ended(&of("k")).await?, MessageState::Sent);
    assert_eq!(messages.classes(&of("k")).await?, ["deferred", "deferred", "sent"]);
    let [refused, taken] = &messages.env.relay.mails()[..] else { panic!("not two mails") };
    assert!(refused.bytes() == taken.bytes(), "the attempts sent different bytes");
    messages.replays(&of("k")).await
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_attempt_a_message_fails_and_can_be_retried() -> Result<()> {
    let messages = MessageEnv::start(waits(&[Duration::from_secs(1)])).await?;
    messages.env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())).times(2));
    messages.send(&submission("k")).await?;
    let k = of("k");
    assert_eq!(messages.ended(&k).await?, MessageState::Failed);
    assert!(messages.record(&k).await?.why.contains("the last attempt failed, too: "));
    let answer = messages.tell(&k).retry(RetryCommand { order: order(), may_duplicate: false }).await?;
    assert_eq!(answer, RetryResult::Queued);
    assert_eq!(messages.ended(&k).await?, MessageState::Sent);
    let again = messages.tell(&k).retry(RetryCommand { order: order(), may_duplicate: true }).await?;
    assert!(matches!(again, RetryResult::Refused { why } if why == "the relay took it"));
    assert_eq!(messages.ended(&k).await?, MessageState::Sent);
    assert_eq!(messages.env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_message_is_resent_only_to_a_deduplicating_relay() -> Result<()> {
    for (relays, ended, mails) in
        [(&["resend"][..], MessageState::Sent, 2), (&["first", "resend"], MessageState::Ambiguous, 1)]
    {
        let relay = Relay::start().await?;
        relay.fault(Fault::new(At::Dot, Act::KeepAndClose).times(1));
        let mut settings = waits(&[Duration::ZERO]);
        for (name, provider) in [("first", Provider::Other), ("resend", Provider::Resend)] {
            let relay = RelaySettings { provider, ..RelaySettings::new(relay.url().parse()?) };
            settings.relays.insert(name.to_owned(), relay);
        }
        let stream = &mut settings.streams.transactional;
        stream.guarantee = DeliveryGuarantee::AtMostOnce;
        stream.relays = relays.iter().map(|&name| name.to_owned()).collect();
        settings.streams.bulk.relays.clone_from(&stream.relays);
        let messages = MessageEnv::start(settings).await?;
        messages.send(&submission("k")).await?;
        assert_eq!((messages.ended(&of("k")).await?, relay.mails().len()), (ended, mails), "{relays:?}");
        assert!(relay.mails().windows(2).all(|mails| mails[0].bytes() == mails[1].bytes()));

        // Two days later the relay has forgotten the first copy.
        let (late, before) = (of("late"), Timestamp::now() - SignedDuration::from_hours(48));
        messages.accept(&submission("late")).await?;
        messages.env.store.begin_attempt(late.message_id(), "resend", Duration::ZERO, before).await?;
        ensure!(messages.env.store.mark_in_doubt(late.message_id(), 1, before).await?);
        messages.send(&submission("late")).await?;
        assert_eq!((messages.ended(&late).await?, relay.mails().len()), (MessageState::Ambiguous, mails), "{relays:?}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn an_at_most_once_stream_never_resends_an_ambiguous_message() -> Result<()> {
    let mut settings = waits(&[Duration::ZERO]);
    settings.streams.transactional.guarantee = DeliveryGuarantee::AtMostOnce;
    let messages = MessageEnv::start(settings).await?;
    let (k, crashed) = (of("k"), of("crashed"));
    messages.env.relay.fault(Fault::new(At::Dot, Act::KeepAndClose).times(1));
    messages.send(&submission("k")).await?;
    assert_eq!(messages.ended(&k).await?, MessageState::Ambiguous);
    assert_eq!((messages.classes(&k).await?, messages.env.relay.mails().len()), (vec!["ambiguous".to_owned()], 1));

    // A worker that died past the dot leaves the same behind, once the relay's reply cannot come any more.
    messages.accept(&submission("crashed")).await?;
    let before = Timestamp::now() - SignedDuration::from_mins(11);
    messages.env.store.begin_attempt(crashed.message_id(), "default", Duration::ZERO, before).await?;
    ensure!(messages.env.store.mark_in_doubt(crashed.message_id(), 1, before).await?);
    messages.send(&submission("crashed")).await?;
    assert_eq!(messages.ended(&crashed).await?, MessageState::Ambiguous);
    assert_eq!(messages.env.relay.mails().len(), 1);

    let refused = messages.tell(&k).retry(RetryCommand { order: order(), may_duplicate: false }).await?;
    assert!(matches!(refused, RetryResult::Refused { why } if why.contains("--may-duplicate")));
    let queued = messages.tell(&k).retry(RetryCommand { order: order(), may_duplicate: true }).await?;
    assert_eq!((queued, messages.ended(&k).await?), (RetryResult::Queued, MessageState::Sent));
    let [first, second] = &messages.env.relay.mails()[..] else { panic!("not two mails") };
    assert!(first.bytes() == second.bytes());
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_worker_is_fenced_after_another_has_sent_the_message() -> Result<()> {
    let messages = MessageEnv { worker: None, env: Env::without_worker(waits(&[])).await? };
    messages.accept(&submission("k")).await?;
    let input = MessageSendInput {
        asked_at: Timestamp::now(),
        key: of("k"),
        failed: 0,
        delays: None,
        keeps_ends: true,
        unrecorded: None,
    };
    messages.env.relay.fault(Fault::new(At::Data, Act::Slow(Duration::from_secs(2))).times(1));
    let (stopped, other) = (Arc::new(messages.deliveries()?), messages.deliveries()?);
    let late_attempt = {
        let (stopped, input) = (stopped.clone(), input.clone());
        tokio::spawn(async move { message::send(&stopped, &input, std::future::pending()).await })
    };
    let before_the_dot = async || Ok(messages.env.relay.commands().contains(&"DATA".to_owned()).then_some(()));
    eventually("the first attempt is before the dot", MINUTE, before_the_dot).await?;
    let CancellableResult::Done(AttemptResult { sent, .. }) =
        message::send(&other, &input, std::future::pending()).await?
    else {
        panic!("was cancelled")
    };
    assert!(matches!(sent, SendAnswer::Closed { closed, .. } if closed.outcome == DigestOutcome::Sent));
    assert!(matches!(late_attempt.await?, Err(StepError::Fenced)));
    assert_eq!(messages.classes(&of("k")).await?, ["fenced", "sent"]);
    assert_eq!(messages.env.relay.mails().len(), 1);
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_digests_does_not_delay_a_message() -> Result<()> {
    const FLOOD: usize = 500;
    let mut messages = MessageEnv::start(waits(&[])).await?;
    messages.env.relay.fault(Fault::new(At::Mail, Act::Slow(Duration::from_millis(20))));
    messages.env.start_worker()?;
    let emit = |n: usize| messages.env.events.emit(event(&key("activity", &format!("user-{n}")), "e1"));
    stream::iter(0..FLOOD).map(emit).buffer_unordered(50).try_collect::<()>().await?;
    wait_for_emails(&messages.env.relay, 1, MINUTE).await?;
    messages.send(&submission("k")).await?;
    assert_eq!(messages.ended(&of("k")).await?, MessageState::Sent);
    wait_for_emails(&messages.env.relay, FLOOD + 1, 3 * MINUTE).await?;
    let place = messages.env.relay.mails().iter().position(|mail| mail.to == [ANN]).context("no mail")?;
    println!("the message was mail {} of {}", place + 1, FLOOD + 1);
    assert!(place < FLOOD, "all digests came first");
    messages.env.stop_worker()
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn bulk_messages_have_an_own_queue_and_earlier_ones_still_arrive() -> Result<()> {
    let mut messages = MessageEnv { worker: None, env: Env::without_worker(waits(&[])).await? };
    let bulk = |key: &str| MessageSubmission { stream: StreamName::Bulk, ..submission(key) };
    // An earlier version started the workflow on the queue of the digests.
    let before = messages.accept(&bulk("before")).await?.message;
    let options = WorkflowStartOptions::new(names::TASK_QUEUE, of("before").workflow_id()).build();
    let workflow = UntypedWorkflow::new(names::MESSAGE_WORKFLOW_TYPE);
    messages.env.temporal.start_workflow(workflow, RawValue::default(), options).await?;
    messages.send(&bulk("after")).await?;

    messages.env.start_worker()?;
    assert_eq!(messages.ended(&of("before")).await?, MessageState::Sent);
    assert_eq!(messages.env.relay.mails().len(), 1, "the worker of the digests sends no new one");
    let own = registration::bulk_worker(names::TASK_QUEUE, messages.deliveries()?)?;
    let own = Running::start(messages.env.temporal.clone(), own)?;
    assert_eq!(messages.ended(&of("after")).await?, MessageState::Sent);
    assert_eq!(messages.env.relay.mails()[0].header("X-Tidings-Message")?, before.id.to_string());
    own.stop()?;
    messages.env.stop_worker()
}
