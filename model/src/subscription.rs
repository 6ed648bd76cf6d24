//! Webhooks to services that subscribed: what a notice says, what the answer to it means, and when it is tried again.
//!
//! A notice is about one fact. It carries ids and closed sets, and neither an address nor a part of a message.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{StoredWait, settings::ServiceUrl, webhook_secret::Secret};

/// Time limit of one delivery. Standard Webhooks asks for 15 to 30 s.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// Bytes of an answer that are read. Only its status counts.
pub const ANSWER_BYTES: usize = 64 << 10;
/// The most notices of a subscription that are counted for operators, of those that wait and of dead letters.
pub const COUNTED: u32 = 100_000;

closed_set! {
    /// The type of a notice.
    pub enum NoticeType {
        /// A relay accepted a digest.
        DigestSent = "digest.sent",
        /// A digest failed, or is ambiguous.
        DigestFailed = "digest.failed",
        /// A window ended without an email.
        DigestSkipped = "digest.skipped",
        /// A relay accepted a single message.
        MessageSent = "message.sent",
        /// A single message failed, or is ambiguous.
        MessageFailed = "message.failed",
        /// A single message was cancelled, or its address is suppressed.
        MessageSkipped = "message.skipped",
        /// The recipient's server has the message.
        MessageDelivered = "message.delivered",
        /// The recipient's server asks for patience.
        MessageDeferred = "message.deferred",
        /// The message came back.
        MessageBounced = "message.bounced",
        /// The recipient calls the message spam.
        MessageComplained = "message.complained",
        /// The message was opened.
        MessageOpened = "message.opened",
        /// A link of the message was followed.
        MessageClicked = "message.clicked",
        /// The recipient used the link or the button of the relay's provider.
        MessageUnsubscribed = "message.unsubscribed",
        /// A recipient no longer wants a digest type.
        RecipientUnsubscribed = "recipient.unsubscribed",
        /// A recipient wants a digest type again.
        RecipientResubscribed = "recipient.resubscribed",
    }
}

/// A service that gets notices.
#[derive(Clone, Debug)]
pub struct Subscription {
    pub name: String,
    pub url: ServiceUrl,
    pub events: BTreeSet<NoticeType>,
    /// `None`: every tenant.
    pub tenant: Option<String>,
    /// `None`: every digest type, and single messages.
    pub digest_type: Option<String>,
    /// Each signs; the receiver needs one of them. Empty: the environment lacks them, so that nothing can be delivered.
    pub secrets: Vec<Secret>,
    /// The environment variable with the secrets.
    pub secret_env: String,
    /// The names that it had. What waits for them waits for this one.
    pub was: Vec<String>,
}

impl Subscription {
    /// Reports if this is its name, or one that it had.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.was.iter().any(|was| was == name)
    }

    /// Returns the value of the header `webhook-signature`: a signature by each secret.
    #[must_use]
    pub fn sign(&self, id: &str, seconds: i64, body: &[u8]) -> String {
        let signatures: Vec<_> = self.secrets.iter().map(|secret| secret.sign(id, seconds, body)).collect();
        signatures.join(" ")
    }
}

/// A notice that waits for its delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The place in the order of the facts, within a lane.
    pub seq: i64,
    /// The same at each delivery.
    pub id: Uuid,
    pub event: NoticeType,
    /// The key, or the message of an address without a user. Notices of a lane are delivered in order.
    pub lane: String,
    pub about: About,
    /// Deliveries that were tried.
    pub tries: u32,
    /// The time of the first of them.
    pub first_tried_at: Option<Timestamp>,
}

/// The fact of a notice. What is empty or `None` does not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
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
    /// The outcome of the digest, or the state of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The class of the last attempt, the kind of a bounce, or `person` or `machine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The body of a request, as Standard Webhooks names its parts.
#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    timestamp: Timestamp,
    data: &'a About,
}

/// Returns the body of a notice in JSON. The same notice has the same bytes at each delivery.
///
/// # Errors
/// Never: ids and names are text.
pub fn body(event: &str, about: &About) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Body { r#type: event, timestamp: about.occurred_at, data: about })
}

/// `deliver_notices`: delivers what waits for a subscription, for half a minute at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverInput {
    pub subscription: String,
    /// The workflow's clock. It counts where the activity's own clock lags behind.
    pub asked_at: Timestamp,
    /// The receiver did not answer before: one notice finds out if it does now.
    pub probe: bool,
}

/// The answer of `deliver_notices`. It is workflow history: numbers, and no id of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverAnswer {
    pub delivered: u64,
    /// Deliveries that are tried again.
    pub failed: u64,
    /// Notices that became dead letters.
    pub dead: u64,
    pub left: Left,
}

/// The notices that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Nothing waits.
    Nothing,
    /// More waits than one call delivers.
    More,
    /// All that waits is held back until then.
    Until(Timestamp),
    /// The receiver does not answer.
    Away,
    /// The receiver answered 410, and gets nothing any more.
    Gone,
    /// The configuration has no such subscription.
    NotConfigured,
}

/// A notice that was not delivered, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeadNotice {
    pub id: Uuid,
    pub r#type: NoticeType,
    /// The time of the fact.
    pub occurred_at: Timestamp,
    pub ended_at: Timestamp,
    /// The result of the last try; `removed`: the subscription is no longer configured.
    pub result: String,
    pub tries: u32,
    pub data: About,
}

/// The notices that a replay delivers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// Delivered ones and dead letters.
    All,
    DeadLetters,
}

/// A subscription as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubscriptionState {
    pub name: String,
    /// Notices that wait.
    pub waiting: u64,
    /// The time at which the first of them was written.
    pub oldest_at: Option<Timestamp>,
    pub dead_letters: u64,
    /// The time of the answer 410.
    pub gone_at: Option<Timestamp>,
}

/// The notices of a subscription that no file has any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetiredNotices {
    pub subscription: String,
    /// Notices that wait for it to come back.
    pub waiting: u64,
    /// Notices that became dead letters just now.
    pub ended: u64,
}

// The end of one delivery.

closed_set! {
    /// The end of one delivery.
    pub enum DeliveryResult {
        /// The answer was 2xx.
        Delivered = "delivered",
        /// The answer was another status, a redirect included.
        Refused = "refused",
        /// The answer was 410: the receiver wants no more notices.
        Gone = "gone",
        /// The answer was 429, 502, 503 or 504.
        Busy = "busy",
        /// There was no connection, or it broke off.
        Unreachable = "unreachable",
        /// The time was over.
        TimedOut = "timed_out",
    }
}

impl DeliveryResult {
    /// Returns the result of an answer with this status.
    #[must_use]
    pub const fn of_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            410 => Self::Gone,
            429 | 502..=504 => Self::Busy,
            _ => Self::Refused,
        }
    }

    /// Tells if another notice would fare no better now.
    #[must_use]
    pub const fn is_away(self) -> bool {
        matches!(self, Self::Busy | Self::Unreachable | Self::TimedOut)
    }
}

// The next try of a notice that was not delivered.

/// The time from the first try of a notice to its last.
pub const GIVE_UP_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Seconds between the first tries of a notice. Later ones are an hour apart.
const BETWEEN: [i64; 6] = [10, 30, 60, 300, 900, 1_800];
const LATER: i64 = 3_600;

impl StoredWait {
    /// A notice to a subscription is tried again.
    pub const NOTICE_RETRY: Self = Self::of(Duration::from_secs(LATER.unsigned_abs()));
}

/// Seconds between looks at a receiver that does not answer. Later ones are five minutes apart.
const AWAY: [u64; 5] = [5, 15, 30, 60, 120];
const STILL_AWAY: u64 = 300;

/// Returns the time of the next try of a notice that was tried `tries` times before this one. The last try is 24 hours after
/// the first. `None`: that was the last.
#[must_use]
pub fn retry_at(first_tried_at: Timestamp, tries: u32, now: Timestamp) -> Option<Timestamp> {
    let last = first_tried_at.saturating_add(GIVE_UP_AFTER).unwrap_or(Timestamp::MAX);
    let seconds = BETWEEN.get(usize::try_from(tries).unwrap_or(usize::MAX)).copied().unwrap_or(LATER);
    let next = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
    (now < last).then(|| next.min(last))
}

/// Returns the pause before a receiver that did not answer `times` times in a row is tried again.
#[must_use]
pub fn away_for(times: u32) -> Duration {
    let before = usize::try_from(times).unwrap_or(usize::MAX).saturating_sub(1);
    Duration::from_secs(AWAY.get(before).copied().unwrap_or(STILL_AWAY))
}

/// The ends of deliveries, as the store records them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    pub delivered: Vec<i64>,
    /// Notices that failed by themselves, each with the time of its next try. `None`: it is a dead letter.
    pub failed: Vec<(i64, DeliveryResult, Option<Timestamp>)>,
    /// The receiver does not answer. Each notice that waits has been tried with that.
    pub away: Option<DeliveryResult>,
    /// The receiver answered 410.
    pub gone: bool,
}

/// Decides what follows from the deliveries of a batch.
///
/// A receiver that answered nothing is away: no notice is to blame, and all wait for the receiver. If it took another notice
/// meanwhile, or answered it, each failure is that of its notice.
#[must_use]
pub fn settled<'a>(tried: impl IntoIterator<Item = (&'a Notice, DeliveryResult)>, now: Timestamp) -> Settled {
    let mut settled = Settled::default();
    let mut unanswered = Vec::new();
    for (notice, result) in tried {
        // A first try that lies ahead was recorded by a wrong clock.
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
        let about = About {
            occurred_at: "2026-11-25T08:00:00.5Z".parse().unwrap(),
            tenant: "acme".to_owned(),
            digest_type: "activity".to_owned(),
            user: "ann".to_owned(),
            digest_id: Some(Uuid::from_u128(7)),
            outcome: Some("sent".to_owned()),
            ..About::default()
        };
        let body = body(NoticeType::DigestSent.name(), &about).unwrap();
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

    fn notice(seq: i64) -> Notice {
        Notice {
            seq,
            id: Uuid::from_u128(1),
            event: NoticeType::DigestSent,
            lane: String::new(),
            about: About::default(),
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
        let of = |results: [DeliveryResult; 2]| settled([&one, &two].into_iter().zip(results), at(0));
        assert_eq!(of([TimedOut, Busy]), Settled { away: Some(TimedOut), ..Settled::default() });
        let later = Some(at(10));
        let mixed = of([Delivered, Busy]);
        assert_eq!((mixed.delivered, mixed.failed, mixed.away), (vec![1], vec![(2, Busy, later)], None));
        let refused = of([Refused, TimedOut]);
        assert_eq!((refused.failed, refused.away), (vec![(1, Refused, later), (2, TimedOut, later)], None));
        assert!(of([Delivered, Gone]).gone);
    }

    #[test]
    fn a_notice_that_fails_after_24_hours_is_a_dead_letter() {
        let old = Notice { tries: 29, first_tried_at: Some(at(-86_400)), ..notice(1) };
        let failed = settled([(&old, DeliveryResult::Refused)], at(0)).failed;
        assert_eq!(failed, [(1, DeliveryResult::Refused, None)]);
    }
}
