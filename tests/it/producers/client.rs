//! The client against the real server: what its callers and the histories see.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, stream};
use temporalio_client::{
    Client as Temporal, ClientOptions, UntypedWorkflow, WorkflowDescribeOptions, WorkflowFetchHistoryOptions,
    WorkflowTerminateOptions, tonic::IntoRequest,
};
use temporalio_common::protos::temporal::api::{
    history::v1::history_event::Attributes, workflowservice::v1::RegisterNamespaceRequest,
};
use tidings_client::{BatchRejection, Client, Config, EmitError, v1};
use tidings_harness::server::DevServer;
use tidings_model::{Key, Retract, decode::DecodedSignal};
use tidings_needs::needs;
use tidings_workflows::InboundSignal;

fn event(user: &str, id: usize) -> v1::Event {
    v1::Event {
        tenant: "acme".into(),
        user: user.into(),
        digest: "activity".into(),
        event_id: format!("event-{id}"),
        category: "comment".into(),
        occurred_at: Some(jiff::Timestamp::UNIX_EPOCH.into()),
        ..v1::Event::default()
    }
}

fn key(user: &str) -> Key {
    Key::new("acme".into(), "activity".into(), user.into()).unwrap()
}

fn by_id(user: &str, event_id: &str) -> v1::Retract {
    let (tenant, digest) = ("acme".into(), "activity".into());
    v1::Retract { tenant, user: user.into(), digest, event_id: event_id.into(), ..v1::Retract::default() }
}

fn by_entity(user: &str) -> v1::Retract {
    v1::Retract {
        category: "comment".into(),
        entity_type: "page".into(),
        entity_id: "7".into(),
        occurred_at: Some(jiff::Timestamp::UNIX_EPOCH.into()),
        ..by_id(user, "")
    }
}

/// The event ids of every signal in the key's open run, in the order of history.
async fn signals(temporal: &Temporal, key: &Key) -> Result<Vec<Vec<String>>> {
    let ids = |batch: DecodedSignal| batch.events.into_iter().map(|event| event.event_id).collect();
    Ok(sorted_signals(temporal, key).await?.into_iter().map(ids).collect())
}

/// Every signal in the key's open run, in the order of history.
async fn sorted_signals(temporal: &Temporal, key: &Key) -> Result<Vec<DecodedSignal>> {
    let handle = temporal.get_workflow_handle::<UntypedWorkflow>(key.workflow_id());
    let mut history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    let mut signals = Vec::new();
    while let Some(event) = history.next().await {
        let attributes = event?.attributes;
        if let Some(Attributes::WorkflowExecutionStartedEventAttributes(start)) = &attributes {
            assert_eq!(start.input.clone().unwrap_or_default().payloads, [], "a digest starts without an argument");
        }
        if let Some(Attributes::WorkflowExecutionSignaledEventAttributes(signal)) = attributes {
            let sorted = InboundSignal::from(signal.input.unwrap_or_default().payloads).for_key(key, 0);
            assert_eq!(sorted.dead_letters, []);
            signals.push(sorted);
        }
    }
    Ok(signals)
}

async fn emit_all(client: &Client, user: &str, count: usize) -> Vec<Result<(), EmitError>> {
    stream::iter(0..count).map(|id| client.emit(event(user, id))).buffer_unordered(count).collect().await
}

#[needs(temporal)]
#[tokio::test]
async fn events_of_a_busy_key_travel_in_batches_and_each_arrives_once() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    let started = Instant::now();
    for answer in emit_all(&client, "ann", 2_000).await {
        answer?;
    }
    let took = started.elapsed();
    let signals = signals(&temporal, &key("ann")).await?;
    let ids: BTreeSet<_> = signals.iter().flatten().collect();
    assert_eq!((ids.len(), signals.iter().map(Vec::len).sum()), (2_000, 2_000_usize));
    assert!(signals.iter().all(|batch| batch.len() <= 500));
    // Five a second, and the first at once.
    assert!(signals.len() <= 1 + (took.as_millis() / 200) as usize, "{} signals in {took:?}", signals.len());

    let description = temporal
        .get_workflow_handle::<UntypedWorkflow>(key("ann").workflow_id())
        .describe(WorkflowDescribeOptions::default())
        .await?;
    let attributes = description.raw_description.workflow_execution_info.context("no info")?.search_attributes;
    let names: BTreeSet<_> = attributes.context("no search attributes")?.indexed_fields.into_keys().collect();
    assert!(names.contains("TidingsTenant") && names.contains("TidingsDigestType"), "{names:?}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn retracts_travel_in_the_batches_of_their_key() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    let [one, all] = [by_id("ann", "event-0"), by_entity("ann")];
    // The pace holds back what comes after the first.
    client.emit(event("ann", 0)).await?;
    let answers = tokio::join!(client.retract(one.clone()), client.emit(event("ann", 1)), client.retract(all));
    for answer in [answers.0, answers.1, answers.2] {
        answer?;
    }
    let sorted = sorted_signals(&temporal, &key("ann")).await?;
    let shapes: Vec<_> = sorted.iter().map(|batch| (batch.events.len(), batch.retracts.len())).collect();
    assert_eq!(shapes, [(1, 0), (1, 2)]);
    let until = jiff::Timestamp::UNIX_EPOCH;
    let (category, entity_type, entity_id) = ("comment".into(), "page".into(), "7".into());
    let expected = [Retract::Event("event-0".into()), Retract::Entity { category, entity_type, entity_id, until }];
    assert_eq!(sorted[1].retracts, expected);

    // What was never emitted can be taken back, too: the retract waits for it.
    client.retract(by_id("bob", "event-0")).await?;
    assert_eq!(sorted_signals(&temporal, &key("bob")).await?[0].retracts, expected[..1]);

    let error = client.retract(v1::Retract { category: "comment".into(), ..one }).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid: event_id: cannot be combined with category"), "{error}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn keys_do_not_wait_for_each_other() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    let users: Vec<_> = (0..50).map(|user| format!("user-{user}")).collect();
    let answers: Vec<_> =
        stream::iter(&users).map(|user| client.emit(event(user, 1))).buffer_unordered(50).collect().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    for user in &users {
        assert_eq!(signals(&temporal, &key(user)).await?, [["event-1"]]);
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn an_event_survives_a_short_server_outage() -> Result<()> {
    let mut server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    client.emit(event("ann", 1)).await?;
    server.stop();
    let emitting = tokio::spawn({
        let client = client.clone();
        async move { client.emit(event("ann", 2)).await }
    });
    server.restart().await?;
    emitting.await??;
    assert_eq!(signals(&server.client().await?, &key("ann")).await?.concat(), ["event-1", "event-2"]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn emit_reports_unavailable_after_its_deadline() -> Result<()> {
    let mut server = DevServer::start().await?;
    let config = Config { deadline: Duration::from_secs(1), ..Config::default() };
    let client = Client::new(server.client().await?, config);
    server.stop();
    let started = Instant::now();
    let error = client.emit(event("ann", 1)).await.unwrap_err();
    assert!(matches!(error, EmitError::Unavailable(_)) && error.is_retryable(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
    // Nothing is left behind: the memory is free again.
    client.flush().await;
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn an_invalid_event_is_refused_before_it_is_sent() -> Result<()> {
    let server = DevServer::start().await?;
    let client = Client::new(server.client().await?, Config::default());
    let error = client.emit(v1::Event { category: String::new(), ..event("ann", 1) }).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid: category: is required");
    assert!(!error.is_retryable());
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn a_missing_namespace_or_search_attribute_is_explained() -> Result<()> {
    let server = DevServer::start().await?;
    let connection = server.client().await?.connection().clone();
    let temporal = Temporal::new(connection.clone(), ClientOptions::new("bare").build())?;
    let client = Client::new(temporal, Config::default());
    let error = client.emit(event("ann", 1)).await.unwrap_err();
    assert!(matches!(error, EmitError::Rejected(BatchRejection::Namespace(_))) && !error.is_retryable(), "{error}");

    let bare = RegisterNamespaceRequest {
        namespace: "bare".into(),
        workflow_execution_retention_period: Some(Duration::from_hours(24).try_into()?),
        ..RegisterNamespaceRequest::default()
    };
    connection.workflow_service().register_namespace(bare.into_request()).await?;
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = loop {
        // A new namespace takes a moment to be known everywhere.
        match client.emit(event("ann", 1)).await.unwrap_err() {
            EmitError::Rejected(BatchRejection::Namespace(_)) if Instant::now() < deadline => {}
            error => break error,
        }
    };
    assert!(matches!(error, EmitError::Rejected(BatchRejection::SearchAttributes(_))), "{error}");
    assert!(error.to_string().contains("tidings migrate"), "{error}");
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn the_event_refused_by_an_oversized_run_starts_the_next_run() -> Result<()> {
    let server = DevServer::start_set(Some("limit.historySize.error=100000")).await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    let large = serde_json::from_value::<v1::Event>(serde_json::json!({"payload": {"excerpt": "x".repeat(15_000)}}))?;
    let mut ids = 0..100;
    let (refused, error) = loop {
        let id = ids.next().context("no event was refused")?;
        if let Err(error) = client.emit(v1::Event { payload: large.payload.clone(), ..event("ann", id) }).await {
            break (id, error);
        }
    };
    assert!(matches!(error, EmitError::Rejected(BatchRejection::Terminated(_))) && error.is_retryable(), "{error}");
    client.emit(event("ann", refused)).await?;
    assert_eq!(signals(&temporal, &key("ann")).await?, [[format!("event-{refused}")]]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn emit_waits_until_queued_events_fit_in_memory() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    // 64 KiB hold at most 63 events with their overhead: batches cannot be larger.
    let client = Client::new(temporal.clone(), Config { memory_bytes: 0, ..Config::default() });
    for answer in emit_all(&client, "ann", 300).await {
        answer?;
    }
    let signals = signals(&temporal, &key("ann")).await?;
    assert_eq!(signals.concat().len(), 300);
    assert!(signals.iter().all(|batch| batch.len() <= 63), "{:?}", signals.iter().map(Vec::len).collect::<Vec<_>>());
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn dropping_one_emit_loses_no_other_event() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    client.emit(event("ann", 0)).await?;
    // The pace now holds both back; one caller leaves.
    let left = tokio::time::timeout(Duration::from_millis(20), client.emit(event("ann", 1)));
    let (left, stayed) = tokio::join!(left, client.emit(event("ann", 2)));
    assert!(left.is_err());
    stayed?;
    assert_eq!(signals(&temporal, &key("ann")).await?.concat(), ["event-0", "event-2"]);
    Ok(())
}

#[needs(temporal)]
#[tokio::test]
async fn the_next_event_after_a_run_ended_starts_a_new_run() -> Result<()> {
    let server = DevServer::start().await?;
    let temporal = server.client().await?;
    let client = Client::new(temporal.clone(), Config::default());
    client.emit(event("ann", 1)).await?;
    let handle = temporal.get_workflow_handle::<UntypedWorkflow>(key("ann").workflow_id());
    handle.terminate(WorkflowTerminateOptions::default()).await?;
    client.emit(event("ann", 2)).await?;
    assert_eq!(signals(&temporal, &key("ann")).await?, [["event-2"]]);
    Ok(())
}
