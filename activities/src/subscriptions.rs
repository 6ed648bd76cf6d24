//! Delivers pending notices to a subscription's receiver.

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
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tidings_model::{
    Alert,
    subscription::{
        ANSWER_BYTES, ANSWER_WITHIN, About, DeliverAnswer, DeliverInput, DeliveryResult, Left, Notice, Settled,
        Subscription, body, settled,
    },
};
use tidings_services::{
    deps::now,
    error::{Error, answer},
    metrics,
    team_service::{Failure, NoAnswer, Question, Signed, send},
};
use tidings_store::Store;
use tidings_workflows::activities::definitions::subscription as definitions;
use uuid::Uuid;

use crate::context::{self, unless_ahead};

const BATCH: u32 = 100;
const LANES: usize = 8;
/// No new batch starts after this time, so the workflow's figures never become stale.
const BUDGET: Duration = Duration::from_secs(30);
pub const TEST: &str = "subscription.test";

pub struct SubscriptionActivities {
    pub store: Arc<dyn Store>,
    pub subscriptions: BTreeMap<String, Subscription>,
}

#[activities]
impl SubscriptionActivities {
    /// Delivers pending notices.
    ///
    /// # Errors
    /// If the store fails. Temporal will retry, and notices delivered but not recorded are delivered again.
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

/// Delivers each lane in order. A lane stops at its first failure; all stop once the receiver is unreachable
/// or gone.
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

pub struct Delivery {
    pub result: DeliveryResult,
    pub why: String,
}

/// Delivers one notice. Its signature uses the delivery's time and the notice's id.
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
