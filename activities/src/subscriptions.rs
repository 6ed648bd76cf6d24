//! Deliveries to subscriptions: the activity that hands the notices that wait to their receiver, and the watch that starts it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use temporalio_client::{
    Client, RpcOptions, UntypedSignal, WorkflowIdConflictPolicy, WorkflowIdReusePolicy, WorkflowStartOptions,
    errors::WorkflowStartError,
};
use temporalio_common::{UntypedWorkflow, data_converters::RawValue, protos::temporal::api::common::v1::Payload};
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::{
    Alert, names,
    process::ProcessProfile,
    subscription::{
        ANSWER_BYTES, ANSWER_WITHIN, About, DeliverAnswer, DeliverInput, DeliveryResult, Left, Notice, RetiredNotices,
        Settled, Subscription, body, settled,
    },
};
use tidings_store::Store;
use tidings_workflows::activities::definitions::subscription as definitions;
use tokio::time::{self, sleep};
use tracing::{Instrument as _, debug_span};
use uuid::Uuid;

use crate::{
    context::{self, unless_ahead},
    deps::now,
    error::{Error, answer},
    metrics,
    processes::agreed,
    team_service::{Failure, NoAnswer, Question, Signed, send},
};

/// Notices that are read at once.
const BATCH: u32 = 100;
/// Lanes that are delivered side by side.
const LANES: usize = 8;
/// Time after which a call begins no other batch, so that its answer, and with it the workflow's figures, are never old.
const BUDGET: Duration = Duration::from_secs(30);
/// The type of the request that tests a subscription.
pub const TEST: &str = "subscription.test";

/// The activities of the subscription workflow.
pub struct SubscriptionActivities {
    pub store: Arc<dyn Store>,
    /// By name.
    pub subscriptions: BTreeMap<String, Subscription>,
}

#[activities]
impl SubscriptionActivities {
    /// Delivers what waits.
    ///
    /// # Errors
    /// The store cannot answer: check the database. Temporal calls again, and what was delivered but not recorded is delivered again.
    #[activity(definition = definitions::Deliver)]
    pub async fn deliver(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: DeliverInput,
    ) -> Result<DeliverAnswer, ActivityError> {
        answer(unless_ahead(&ctx, Some(input.asked_at), context::during(&ctx, self.deliver_all(&input))).await)
    }
}

impl SubscriptionActivities {
    async fn deliver_all(
        &self,
        DeliverInput { subscription: name, asked_at, probe }: &DeliverInput,
    ) -> Result<DeliverAnswer, Error> {
        let mut answer = DeliverAnswer { delivered: 0, failed: 0, dead: 0, left: Left::NotConfigured };
        let Some(subscription) = self.subscriptions.get(name) else { return Ok(answer) };
        let begun = Instant::now();
        let mut limit = if *probe { 1 } else { BATCH };
        loop {
            let now = now(*asked_at);
            let ready = self.store.ready_notices(name, limit, now).await?;
            if ready.is_empty() {
                let next = self.store.next_notice(name, now).await?;
                answer.left = next.map_or(Left::Nothing, Left::Until);
                return Ok(answer);
            }
            let settled = deliver_batch(subscription, ready, now).await;
            let dead = self.store.settle_notices(name, &settled, now).await?;
            answer.delivered += settled.delivered.len() as u64;
            answer.failed += settled.failed.iter().filter(|(_, _, retry)| retry.is_some()).count() as u64;
            answer.dead += dead;
            report(subscription, &settled, dead);
            if settled.gone || settled.away.is_some() || begun.elapsed() > BUDGET {
                answer.left = match settled {
                    Settled { gone: true, .. } => Left::Gone,
                    Settled { away: Some(_), .. } => Left::Away,
                    Settled { .. } => Left::More,
                };
                return Ok(answer);
            }
            limit = BATCH;
        }
    }
}

/// Delivers each lane in order. A lane ends with its first failure, and all of them once the receiver is away or gone.
async fn deliver_batch(subscription: &Subscription, notices: Vec<Notice>, now: Timestamp) -> Settled {
    let mut lanes: BTreeMap<String, Vec<Notice>> = BTreeMap::new();
    for notice in notices {
        lanes.entry(notice.lane.clone()).or_default().push(notice);
    }
    let stop = AtomicBool::new(false);
    let tried: Vec<_> = stream::iter(lanes.into_values())
        .map(|lane| deliver_lane(subscription, lane, &stop))
        .buffer_unordered(LANES)
        .collect()
        .await;
    settled(tried.iter().flatten().map(|(notice, result)| (notice, *result)), now)
}

async fn deliver_lane(
    subscription: &Subscription,
    lane: Vec<Notice>,
    stop: &AtomicBool,
) -> Vec<(Notice, DeliveryResult)> {
    let mut tried = Vec::new();
    for notice in lane {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let result = deliver(subscription, notice.event.name(), notice.id, &notice.about).await.result;
        metrics::notice(&subscription.name, result);
        tried.push((notice, result));
        if result.is_away() || result == DeliveryResult::Gone {
            stop.store(true, Ordering::Relaxed);
        }
        if result != DeliveryResult::Delivered {
            break;
        }
    }
    tried
}

/// The end of one delivery.
pub struct Delivery {
    pub result: DeliveryResult,
    /// The status of the answer, or the reason why there is none, without a secret.
    pub why: String,
}

/// Delivers one notice. The time of the signature is that of this delivery, and the id is that of the notice.
async fn deliver(subscription: &Subscription, event: &str, id: Uuid, about: &About) -> Delivery {
    let answered = async {
        let body = body(event, about)?;
        let (id, timestamp) = (id.to_string(), Timestamp::now().as_second());
        let signature = subscription.sign(&id, timestamp, &body);
        let signed = Signed { id, timestamp, signature };
        send(&subscription.url, Question::Post(body), signed, ANSWER_BYTES, ANSWER_WITHIN).await
    };
    match answered.await {
        Ok((status, _)) => {
            Delivery { result: DeliveryResult::of_status(status.as_u16()), why: format!("the status {status}") }
        }
        Err(Failure { result, why }) => {
            let result = match result {
                NoAnswer::TimedOut => DeliveryResult::TimedOut,
                NoAnswer::Unreachable | NoAnswer::Unreadable => DeliveryResult::Unreachable,
            };
            Delivery { result, why }
        }
    }
}

/// Sends a signed request of the type [`TEST`], which is about nothing.
pub async fn test(subscription: &Subscription, now: Timestamp) -> Delivery {
    let tenant = subscription.tenant.clone().unwrap_or_default();
    let digest_type = subscription.digest_type.clone().unwrap_or_default();
    let about = About { occurred_at: now, tenant, digest_type, ..About::default() };
    deliver(subscription, TEST, Uuid::new_v4(), &about).await
}

fn report(subscription: &Subscription, settled: &Settled, dead: u64) {
    let (name, host) = (subscription.name.as_str(), subscription.url.host());
    if settled.gone {
        tracing::error!(
            alert = %Alert::SubscriptionEnded, subscription = name, host, dead,
            "the receiver answered 410: nothing more is delivered until `tidings subscriptions replay`"
        );
    } else if dead > 0 {
        tracing::error!(
            alert = %Alert::NoticesUndelivered, subscription = name, host, dead,
            "notices could not be delivered within 24 hours, and are dead letters"
        );
    } else if let Some(result) = settled.away {
        tracing::warn!(subscription = name, host, %result, "the receiver of a subscription is away: it is tried again");
    } else if let Some((_, result, _)) = settled.failed.first() {
        let failed = settled.failed.len();
        tracing::warn!(subscription = name, host, %result, failed, "notices were not delivered: they are tried again");
    }
}

/// The pause between two looks. A notice is late by as much.
const LOOK: Duration = Duration::from_secs(5);
/// A subscription with notices that wait is signalled this often, also if none is new: a notice may be committed after a later one.
const AGAIN: Duration = Duration::from_mins(5);
/// Notices of subscriptions that no file has any more are looked for this often.
const RETIRE: Duration = Duration::from_hours(1);
/// Time limit of a signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// The watch of one worker over notices: it starts the workflow of a subscription, or wakes it, when a notice waits. A look is one question
/// to the store, which reads one row of an index for each subscription. So Temporal has nothing to do while nothing waits, and a digest
/// costs no call for its notices.
pub struct Watch {
    store: Arc<dyn Store>,
    temporal: Client,
    /// The task queue of the digests.
    task_queue: String,
    /// The latest notice of each subscription that was signalled, and when.
    signalled: BTreeMap<String, (i64, time::Instant)>,
    /// The last look for notices of subscriptions that no file has any more.
    retired_at: Option<time::Instant>,
    /// The subscriptions of the file, and what this worker works with.
    file: Option<(Vec<Subscription>, ProcessProfile)>,
}

impl Watch {
    #[must_use]
    pub const fn new(store: Arc<dyn Store>, temporal: Client, task_queue: String) -> Self {
        Self { store, temporal, task_queue, signalled: BTreeMap::new(), retired_at: None, file: None }
    }

    /// The same watch, which takes subscriptions away that this file lacks once all workers have it.
    #[must_use]
    pub fn of_file(self, subscriptions: Vec<Subscription>, own: ProcessProfile) -> Self {
        Self { file: Some((subscriptions, own)), ..self }
    }

    /// Looks again and again.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "notices to subscriptions wait: the watch tries again");
            }
            sleep(LOOK).await;
        }
    }

    /// Signals each subscription for which a notice waits that this watch has not seen.
    ///
    /// # Errors
    /// The store or Temporal does not answer. The next look signals what this one did not.
    pub async fn look(&mut self) -> Result<(), WatchError> {
        if self.retired_at.is_none_or(|at| at.elapsed() >= RETIRE) {
            if let Some((subscriptions, own)) = &self.file
                && agreed(&*self.store, Some(own)).await.is_ok()
            {
                self.store.subscribe(subscriptions, true).await?;
            }
            self.store.retire_notices(Timestamp::now()).await?.iter().for_each(report_retired);
            self.retired_at = Some(time::Instant::now());
        }
        let waiting = self.store.newest_notices().await?;
        // An operator's replay lets earlier notices wait again.
        self.signalled.retain(|subscription, _| waiting.iter().any(|(name, _)| name == subscription));
        for (subscription, newest) in waiting {
            let known = self.signalled.get(&subscription);
            if known.is_some_and(|(seq, at)| *seq == newest && at.elapsed() < AGAIN) {
                continue;
            }
            signal(&self.temporal, &self.task_queue, &subscription).await?;
            self.signalled.insert(subscription, (newest, time::Instant::now()));
        }
        Ok(())
    }
}

/// Tells operators of what waits for nobody, while they can still do something about it.
fn report_retired(RetiredNotices { subscription, waiting, ended }: &RetiredNotices) {
    if *waiting > 0 {
        tracing::error!(
            alert = %Alert::SubscriptionRemoved, subscription, waiting,
            "notices wait for a subscription that no file has, and are dead letters after 24 hours: write its table again, or `was` in the \
             table that it has now"
        );
    }
    if *ended > 0 {
        tracing::error!(
            alert = %Alert::NoticesUndelivered, subscription, dead = ended,
            "no file had the subscription for 24 hours, and its notices are dead letters"
        );
    }
}

/// A look that failed.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    #[error(transparent)]
    Store(#[from] tidings_store::Error),
    #[error(transparent)]
    Temporal(#[from] WorkflowStartError),
}

/// Wakes the workflow of a subscription, or starts it.
///
/// # Errors
/// Temporal does not answer.
pub async fn signal(temporal: &Client, task_queue: &str, subscription: &str) -> Result<(), WorkflowStartError> {
    let id = names::subscription(task_queue, subscription);
    let options = WorkflowStartOptions::new(names::subscriptions(task_queue), id.clone())
        .id_reuse_policy(WorkflowIdReusePolicy::AllowDuplicate)
        .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
        .rpc_options(RpcOptions::builder().timeout(PATIENCE).build())
        .build();
    let data = serde_json::json!({ "name": subscription }).to_string().into_bytes();
    let metadata = [("encoding".to_owned(), b"json/plain".to_vec())].into();
    let input = RawValue::new(vec![Payload { metadata, data, ..Payload::default() }]);
    let workflow = UntypedWorkflow::new(names::SUBSCRIPTION_WORKFLOW_TYPE);
    let notice = UntypedSignal::new(names::NOTICE_SIGNAL);
    // `RawValue::empty()` would be one empty argument.
    let signalled = temporal.signal_with_start_workflow(workflow, input, notice, RawValue::default(), options);
    signalled.instrument(debug_span!("temporal", call = "signal_with_start", id)).await.map(drop)
}
