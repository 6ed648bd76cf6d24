//! The spans of a digest's calls of Temporal, the store and the relay.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Result;
use tidings_client::WorkflowCommands;
use tidings_harness::{
    env::{Env, event, key, order, settings},
    wait::wait_for_emails,
};
use tidings_model::{command::HoldCommand, names};
use tidings_needs::needs;
use tidings_workflows::DigestStatus;
use tracing::{
    Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*};

/// Every span of Tidings: its name and its fields.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if !span.metadata().target().starts_with("tidings") {
            return;
        }
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        self.0.lock().unwrap().push(text);
    }
}

#[needs(temporal, own_process)]
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_temporal_store_and_relay_are_spans_without_an_address() -> Result<()> {
    let spans = Spans::default();
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(spans.clone()))?;
    let env = Env::start(settings("after 1s", "after 1s")).await?;
    let key = key("activity", "spans");
    let commands = WorkflowCommands::new(env.temporal.clone(), names::TASK_QUEUE);
    env.events.emit(event(&key, "event-1")).await?;
    commands.digest(&key).hold(HoldCommand { order: order(), until: None }).await?;
    assert!(commands.digest(&key).status::<DigestStatus>().await?.is_some());
    commands.digest(&key).release(order().into()).await?;
    wait_for_emails(&env.relay, 1, Duration::from_mins(1)).await?;

    let seen = spans.0.lock().unwrap().clone();
    for wanted in [
        "temporal call=\"signal_with_start\" key=acme/activity/spans",
        "temporal call=\"hold\" key=acme/activity/spans",
        "temporal call=\"status\" key=acme/activity/spans",
        "temporal call=\"release\" key=acme/activity/spans",
        "claim_rendered key=acme/activity/spans",
        "smtp relay=\"default\"",
    ] {
        assert!(seen.iter().any(|span| span.starts_with(wanted)), "no span {wanted} among {seen:#?}");
    }
    let with_address: Vec<_> = seen.iter().filter(|span| span.contains('@')).collect();
    assert!(with_address.is_empty(), "{with_address:#?}");
    Ok(())
}
