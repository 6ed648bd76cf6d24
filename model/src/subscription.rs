//! Webhooks to subscribed services: a notice's contents, how to treat a response, and when to retry.
//!
//! A notice is about one fact. It only contains ids and values of closed sets, never an address or part of a
//! message.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{StoredWait, settings::ServiceUrl, webhook_secret::SigningSecret};

/// Timeout of one delivery. Standard Webhooks recommends 15 to 30 s.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Maximum response size to read. We only use the status.
pub const ANSWER_BYTES: usize = 64 << 10;
/// Stop counting a subscription's pending or dead notices here.
pub const COUNTED: u32 = 100_000;

closed_set! {
    pub enum NoticeType {
        DigestSent = "digest.sent",
        DigestFailed = "digest.failed",
        DigestSkipped = "digest.skipped",
        MessageSent = "message.sent",
        MessageFailed = "message.failed",
        MessageSkipped = "message.skipped",
        MessageDelivered = "message.delivered",
        MessageDeferred = "message.deferred",
        MessageBounced = "message.bounced",
        MessageComplained = "message.complained",
        MessageOpened = "message.opened",
        MessageClicked = "message.clicked",
        MessageUnsubscribed = "message.unsubscribed",
        RecipientUnsubscribed = "recipient.unsubscribed",
        RecipientResubscribed = "recipient.resubscribed",
    }
}

#[derive(Clone, Debug)]
pub struct WebhookSubscription {
    pub name: String,
    pub url: ServiceUrl,
    pub events: BTreeSet<NoticeType>,
    pub tenant: Option<String>,
    pub digest_type: Option<String>,
    /// All of them sign; the receiver needs one. Empty if missing from the environment; nothing can then be
    /// delivered.
    pub secrets: Vec<SigningSecret>,
    pub secret_env: String,
    /// Former names, whose pending notices belong to this subscription.
    pub was: Vec<String>,
}

impl WebhookSubscription {
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.was.iter().any(|was| was == name)
    }

    /// The value of the header `webhook-signature`, with one signature per secret.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let signatures: Vec<_> = self.secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
        signatures.join(" ")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingNotice {
    pub seq: i64,
    /// The same for each delivery, so receivers should use it as an idempotency key.
    pub id: Uuid,
    pub event: NoticeType,
    /// The key, or the message if its address has no user. Notices in a lane are delivered in order.
    pub lane: String,
    pub about: NoticeFact,
    pub tries: u32,
    pub first_tried_at: Option<Timestamp>,
}

/// A notice's fact. Fields that do not apply are empty or `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NoticeFact {
    #[serde(skip)]
    pub occurred_at: Timestamp,
    pub tenant: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Uuid>,
    /// The digest's outcome or the message's state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The class of the last attempt, the kind of bounce, or `person` or `machine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Serialize)]
struct NoticeBody<'a> {
    r#type: &'a str,
    timestamp: Timestamp,
    data: &'a NoticeFact,
}

/// Serializes a notice to the same bytes at each delivery.
///
/// # Errors
/// Never, because ids and names are text.
pub fn notice_body(event: &str, about: &NoticeFact) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&NoticeBody { r#type: event, timestamp: about.occurred_at, data: about })
}

/// Input of `deliver_notices`, which delivers pending notices for at most half a minute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverInput {
    pub subscription: String,
    pub asked_at: Timestamp,
    /// The receiver did not respond before: send one notice as a probe.
    pub probe: bool,
}

/// Output of `deliver_notices`. Workflow history keeps it, so it only contains numbers, no personal ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverAnswer {
    pub delivered: u64,
    pub failed: u64,
    pub dead: u64,
    pub left: RemainingNotices,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemainingNotices {
    Nothing,
    More,
    /// All pending notices back off until then.
    Until(Timestamp),
    Away,
    Gone,
    NotConfigured,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadNotice {
    pub id: Uuid,
    pub r#type: NoticeType,
    pub occurred_at: Timestamp,
    pub ended_at: Timestamp,
    /// The last try's result; `removed` if the subscription is no longer configured.
    pub result: String,
    pub tries: u32,
    pub data: NoticeFact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayScope {
    /// Delivered ones and dead letters.
    All,
    DeadLetters,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubscriptionState {
    pub name: String,
    pub waiting: u64,
    pub oldest_at: Option<Timestamp>,
    pub dead_letters: u64,
    pub gone_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredNotices {
    pub subscription: String,
    pub waiting: u64,
    pub ended: u64,
}

closed_set! {
    pub enum DeliveryResult {
        /// 2xx.
        Delivered = "delivered",
        /// Any other status, including redirects.
        Refused = "refused",
        /// 410: send this receiver no more notices.
        Gone = "gone",
        /// 429, 502, 503 or 504.
        Busy = "busy",
        Unreachable = "unreachable",
        TimedOut = "timed_out",
    }
}

impl DeliveryResult {
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            410 => Self::Gone,
            429 | 502..=504 => Self::Busy,
            _ => Self::Refused,
        }
    }

    /// Returns `true` if other notices would also fail now.
    #[must_use]
    pub const fn is_away(self) -> bool {
        matches!(self, Self::Busy | Self::Unreachable | Self::TimedOut)
    }
}

/// Between a notice's first and last try.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Seconds between a notice's first tries; after that it is retried hourly.
const BETWEEN: [i64; 6] = [10, 30, 60, 300, 900, 1_800];
const LATER: i64 = 3_600;

impl StoredWait {
    pub const NOTICE_RETRY: Self = Self::with_longest(Duration::from_secs(LATER.unsigned_abs()));
}

/// Seconds between the first probes of an unresponsive receiver; after that we probe every five minutes.
const AWAY: [u64; 5] = [5, 15, 30, 60, 120];
const STILL_AWAY: u64 = 300;

/// The next try after `tries` earlier ones and this one. The last try is 24 hours after the first; then
/// `None`.
#[must_use]
pub fn retry_at(first_tried_at: Timestamp, tries: u32, now: Timestamp) -> Option<Timestamp> {
    let last = first_tried_at.saturating_add(GIVE_UP_AFTER).unwrap_or(Timestamp::MAX);
    let seconds = BETWEEN.get(usize::try_from(tries).unwrap_or(usize::MAX)).copied().unwrap_or(LATER);
    let next = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    (now < last).then(|| next.min(last))
}

/// The backoff after `times` consecutive failures to respond.
#[must_use]
pub fn away_for(times: u32) -> Duration {
    let before = usize::try_from(times).unwrap_or(usize::MAX).saturating_sub(1);
    Duration::from_secs(AWAY.get(before).copied().unwrap_or(STILL_AWAY))
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryOutcomes {
    pub delivered: Vec<i64>,
    /// Notices which failed by themselves, with their next try. `None` makes one a dead letter.
    pub failed: Vec<(i64, DeliveryResult, Option<Timestamp>)>,
    /// The receiver does not respond; this counts as a try for every pending notice.
    pub away: Option<DeliveryResult>,
    pub gone: bool,
}

/// If the receiver accepted or rejected no notice at all, it is away, and all notices back off together.
/// Otherwise each failure counts against its own notice.
#[must_use]
pub fn settle_deliveries<'a>(
    tried: impl IntoIterator<Item = (&'a PendingNotice, DeliveryResult)>,
    now: Timestamp,
) -> DeliveryOutcomes {
    let mut settled = DeliveryOutcomes::default();
    let mut unanswered = Vec::new();
    for (notice, result) in tried {
        // A first try in the future was recorded by a wrong clock.
        let retry = retry_at(notice.first_tried_at.map_or(now, |first| first.min(now)), notice.tries, now);
        match result {
            DeliveryResult::Delivered => settled.delivered.push(notice.seq),
            DeliveryResult::Gone => settled.gone = true,
            DeliveryResult::Refused => settled.failed.push((notice.seq, result, retry)),
            DeliveryResult::Busy | DeliveryResult::Unreachable | DeliveryResult::TimedOut => {
                unanswered.push((notice.seq, result, retry));
            }
        }
    }
    if settled.delivered.is_empty() && settled.failed.is_empty() {
        settled.away = unanswered.first().map(|(_, result, _)| *result);
    } else {
        settled.failed.extend(unanswered);
    }
    settled
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_body_leaves_out_what_does_not_apply() {
        let about = NoticeFact {
            occurred_at: "2026-11-25T08:00:00.5Z".parse().unwrap(),
            tenant: "acme".to_owned(),
            digest_type: "activity".to_owned(),
            user: "ann".to_owned(),
            digest_id: Some(Uuid::from_u128(7)),
            outcome: Some("sent".to_owned()),
            ..NoticeFact::default()
        };
        let body = notice_body(NoticeType::DigestSent.name(), &about).unwrap();
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"type":"digest.sent","timestamp":"2026-11-25T08:00:00.5Z","data":{"tenant":"acme","digest_type":"activity","user":"ann","digest_id":"00000000-0000-0000-0000-000000000007","outcome":"sent"}}"#
        );
    }
    #[test]
    fn only_2xx_is_delivered_and_only_410_is_gone() {
        for (status, result) in [
            (200, DeliveryResult::Delivered),
            (299, DeliveryResult::Delivered),
            (301, DeliveryResult::Refused),
            (307, DeliveryResult::Refused),
            (400, DeliveryResult::Refused),
            (404, DeliveryResult::Refused),
            (410, DeliveryResult::Gone),
            (429, DeliveryResult::Busy),
            (500, DeliveryResult::Refused),
            (503, DeliveryResult::Busy),
        ] {
            assert_eq!(DeliveryResult::of_status(status), result, "{status}");
        }
        assert!(!DeliveryResult::Refused.is_away() && DeliveryResult::Busy.is_away());
    }
    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn notice(seq: i64) -> PendingNotice {
        PendingNotice {
            seq,
            id: Uuid::from_u128(1),
            event: NoticeType::DigestSent,
            lane: String::new(),
            about: NoticeFact::default(),
            tries: 0,
            first_tried_at: None,
        }
    }

    #[test]
    fn the_last_try_is_24_hours_after_the_first() {
        let (mut now, mut tries) = (at(0), 0);
        let mut times = Vec::new();
        while let Some(next) = retry_at(at(0), tries, now) {
            (now, tries) = (next, tries + 1);
            times.push(now.duration_since(at(0)).as_secs());
        }
        assert_eq!(times[..7], [10, 40, 100, 400, 1_300, 3_100, 6_700]);
        assert_eq!(times.last(), Some(&(24 * 3_600)));
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_receiver_that_stays_away_is_tried_every_five_minutes() {
        let pauses: Vec<_> = (1..8).map(|times| away_for(times).as_secs()).collect();
        assert_eq!(pauses, [5, 15, 30, 60, 120, 300, 300]);
    }

    #[test]
    fn a_receiver_is_away_if_it_answered_no_notice() {
        use DeliveryResult::{Busy, Delivered, Gone, Refused, TimedOut};
        let (one, two) = (notice(1), notice(2));
        let of = |results: [DeliveryResult; 2]| settle_deliveries([&one, &two].into_iter().zip(results), at(0));
        assert_eq!(of([TimedOut, Busy]), DeliveryOutcomes { away: Some(TimedOut), ..DeliveryOutcomes::default() });
        let later = Some(at(10));
        let mixed = of([Delivered, Busy]);
        assert_eq!((mixed.delivered, mixed.failed, mixed.away), (vec![1], vec![(2, Busy, later)], None));
        let refused = of([Refused, TimedOut]);
        assert_eq!((refused.failed, refused.away), (vec![(1, Refused, later), (2, TimedOut, later)], None));
        assert!(of([Delivered, Gone]).gone);
    }

    #[test]
    fn a_notice_that_fails_after_24_hours_is_a_dead_letter() {
        let old = PendingNotice { tries: 29, first_tried_at: Some(at(-86_400)), ..notice(1) };
        let failed = settle_deliveries([(&old, DeliveryResult::Refused)], at(0)).failed;
        assert_eq!(failed, [(1, DeliveryResult::Refused, None)]);
    }
}
