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
    AlertName,
    subscription::{
        ANSWER_BYTES, ANSWER_WITHIN, DeliverAnswer, DeliverInput, DeliveryOutcomes, DeliveryResult, NoticeFact,
        PendingNotice, RemainingNotices, WebhookSubscription, notice_body, settle_deliveries,
    },
};
use tidings_services::{
    deps::now_at_least,
    error::{StepError, activity_result},
    metrics,
    team_service::{NoAnswer, ServiceFailure, ServiceRequest, SignatureHeaders, send_request},
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
    pub subscriptions: BTreeMap<String, WebhookSubscription>,
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
        activity_result(
            unless_ahead(&ctx, Some(input.asked_at), context::with_heartbeats(&ctx, self.deliver_all(&input))).await,
        )
    }
}

impl SubscriptionActivities {
    async fn deliver_all(
        &self,
        DeliverInput { subscription: name, asked_at, probe }: &DeliverInput,
    ) -> Result<DeliverAnswer, StepError> {
        let mut answer = DeliverAnswer { delivered: 0, failed: 0, dead: 0, left: RemainingNotices::NotConfigured };
        let Some(subscription) = self.subscriptions.get(name) else { return Ok(answer) };
        let begun = Instant::now();
        let mut limit = if *probe { 1 } else { BATCH };
        loop {
            let now = now_at_least(*asked_at);
            let ready = self.store.ready_notices(name, limit, now).await?;
            if ready.is_empty() {
                let next = self.store.next_notice(name, now).await?;
                answer.left = next.map_or(RemainingNotices::Nothing, RemainingNotices::Until);
                return Ok(answer);
            }
            let settled = deliver_batch(subscription, ready, now).await;
            let dead = self.store.settle_notices(name, &settled, now).await?;
            answer.delivered += settled.delivered.len() as u64;
            answer.failed += settled.failed.iter().filter(|(_, _, retry)| retry.is_some()).count() as u64;
            answer.dead += dead;
            log_settled(subscription, &settled, dead);
            if settled.gone || settled.away.is_some() || begun.elapsed() > BUDGET {
                answer.left = match settled {
                    DeliveryOutcomes { gone: true, .. } => RemainingNotices::Gone,
                    DeliveryOutcomes { away: Some(_), .. } => RemainingNotices::Away,
                    DeliveryOutcomes { .. } => RemainingNotices::More,
                };
                return Ok(answer);
            }
            limit = BATCH;
        }
    }
}

/// Delivers each lane in order. A lane stops at its first failure; all stop once the receiver is unreachable
/// or gone.
async fn deliver_batch(
    subscription: &WebhookSubscription,
    notices: Vec<PendingNotice>,
    now: Timestamp,
) -> DeliveryOutcomes {
    let mut lanes: BTreeMap<String, Vec<PendingNotice>> = BTreeMap::new();
    for notice in notices {
        lanes.entry(notice.lane.clone()).or_default().push(notice);
    }
    let stop = AtomicBool::new(false);
    let tried: Vec<_> = stream::iter(lanes.into_values())
        .map(|lane| deliver_lane(subscription, lane, &stop))
        .buffer_unordered(LANES)
        .collect()
        .await;
    settle_deliveries(tried.iter().flatten().map(|(notice, result)| (notice, *result)), now)
}

async fn deliver_lane(
    subscription: &WebhookSubscription,
    lane: Vec<PendingNotice>,
    stop: &AtomicBool,
) -> Vec<(PendingNotice, DeliveryResult)> {
    let mut tried = Vec::new();
    for notice in lane {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let result = deliver(subscription, notice.event.name(), notice.id, &notice.about).await.result;
        metrics::count_webhook_delivery(&subscription.name, result);
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

pub struct NoticeDelivery {
    pub result: DeliveryResult,
    pub why: String,
}

/// Delivers one notice. Its signature uses the delivery's time and the notice's id.
async fn deliver(subscription: &WebhookSubscription, event: &str, id: Uuid, about: &NoticeFact) -> NoticeDelivery {
    let answered = async {
        let body = notice_body(event, about)?;
        let (id, timestamp) = (id.to_string(), Timestamp::now().as_second());
        let signature = subscription.sign(&id, timestamp, &body);
        let signed = SignatureHeaders { id, timestamp, signature };
        send_request(&subscription.url, ServiceRequest::Post(body), signed, ANSWER_BYTES, ANSWER_WITHIN).await
    };
    match answered.await {
        Ok((status, _)) => {
            NoticeDelivery { result: DeliveryResult::of_status(status.as_u16()), why: format!("the status {status}") }
        }
        Err(ServiceFailure { result, why }) => {
            let result = match result {
                NoAnswer::TimedOut => DeliveryResult::TimedOut,
                NoAnswer::Unreachable | NoAnswer::Unreadable => DeliveryResult::Unreachable,
            };
            NoticeDelivery { result, why }
        }
    }
}

pub async fn test(subscription: &WebhookSubscription, now: Timestamp) -> NoticeDelivery {
    let tenant = subscription.tenant.clone().unwrap_or_default();
    let digest_type = subscription.digest_type.clone().unwrap_or_default();
    let about = NoticeFact { occurred_at: now, tenant, digest_type, ..NoticeFact::default() };
    deliver(subscription, TEST, Uuid::new_v4(), &about).await
}

fn log_settled(subscription: &WebhookSubscription, settled: &DeliveryOutcomes, dead: u64) {
    let (name, host) = (subscription.name.as_str(), subscription.url.host());
    if settled.gone {
        tracing::error!(
            alert = %AlertName::SubscriptionEnded, subscription = name, host, dead,
            "the receiver answered 410: nothing more is delivered until `tidings subscriptions replay`"
        );
    } else if dead > 0 {
        tracing::error!(
            alert = %AlertName::NoticesUndelivered, subscription = name, host, dead,
            "notices could not be delivered within 24 hours, and are dead letters"
        );
    } else if let Some(result) = settled.away {
        tracing::warn!(subscription = name, host, %result, "webhook endpoint is down; retrying");
    } else if let Some((_, result, _)) = settled.failed.first() {
        let failed = settled.failed.len();
        tracing::warn!(subscription = name, host, %result, failed, "webhook events were not delivered; retrying");
    }
}
