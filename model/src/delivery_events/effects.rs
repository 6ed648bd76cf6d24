//! The effects of a delivery event, as a pure function of the message and its reports. Order and repeats of
//! events do not matter.

use jiff::Timestamp;

use super::report::{BounceKind, DeliveryReport, ReportKind};
use crate::{
    Key,
    records::{AuditActor, AuditEntry, MessageOrigin, MessageRecord, MessageState, Suppression, SuppressionReason},
};

/// Audit action: the recipient unsubscribed from a digest type.
pub const WITHDRAW: &str = "withdraw consent";
/// Audit action: the recipient subscribed to a digest type again.
pub const GRANT: &str = "grant consent";

pub struct EffectContext<'a> {
    pub message: &'a MessageRecord,
    /// All of the message's reports, including the new one.
    pub reports: &'a [DeliveryReport],
    /// From the first since the address last accepted a message.
    pub soft_bounced: &'a [Timestamp],
    /// Consecutive soft bounces that suppress the address.
    pub most: u32,
    pub relay: Option<&'a str>,
    pub now: Timestamp,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct DeliveryEffects {
    /// Marks a message without an outcome as sent.
    pub taken: bool,
    /// For a message with an outcome.
    pub state: Option<(MessageState, String)>,
    /// Resets the soft bounces. Apply this before `suppress`.
    pub forgiven: bool,
    pub suppress: Option<Suppression>,
    /// Unless the recipient has consented again since.
    pub withdraw: Option<(Key, AuditEntry)>,
}

#[must_use]
pub fn delivery_effects(known: &EffectContext<'_>, new: &DeliveryReport) -> DeliveryEffects {
    let EffectContext { message, reports, .. } = known;
    let suppress = |reason| Some(build_suppression(message, reason, new.to_string(), new.occurred_at));
    let taken = DeliveryEffects { taken: true, state: state_from_reports(reports), ..DeliveryEffects::default() };
    match new.kind {
        ReportKind::Delivered => DeliveryEffects { forgiven: true, suppress: soft_bounces(known), ..taken },
        ReportKind::Bounced(BounceKind::Hard) => {
            DeliveryEffects { suppress: suppress(SuppressionReason::HardBounce), ..taken }
        }
        ReportKind::Bounced(BounceKind::Soft) => DeliveryEffects { suppress: soft_bounces(known), ..taken },
        ReportKind::Bounced(BounceKind::Policy) => taken,
        // A provider which drops a message because of an earlier complaint did have the message, so this is
        // its outcome.
        ReportKind::Complained | ReportKind::Unsubscribed => {
            let base = if new.never_sent { taken } else { DeliveryEffects::default() };
            match (new.kind, &message.origin) {
                (ReportKind::Complained, _) => {
                    DeliveryEffects { suppress: suppress(SuppressionReason::Complaint), ..base }
                }
                (_, MessageOrigin::Digest(key)) => {
                    DeliveryEffects { withdraw: Some((key.clone(), withdrawal_entry(known))), ..base }
                }
                (_, MessageOrigin::Single { .. }) => {
                    DeliveryEffects { suppress: suppress(SuppressionReason::Unsubscribed), ..base }
                }
            }
        }
        // Opens and clicks may come from machines, and a deferred message has no outcome.
        ReportKind::Deferred | ReportKind::Opened | ReportKind::Clicked => DeliveryEffects::default(),
    }
}

/// A final bounce overrides a delivery report, which overrides a soft bounce and a copy the provider kept
/// back. The earliest failure gives the reason.
fn state_from_reports(reports: &[DeliveryReport]) -> Option<(MessageState, String)> {
    let failed = |is_final: bool| {
        let failures = reports.iter().filter(|report| report.never_sent || report.kind.bounce().is_some());
        let failures = failures.filter(|report| report.is_final() == is_final);
        let why = failures.map(|report| (report.occurred_at, report.to_string())).min();
        why.map(|(_, why)| (MessageState::Failed, why))
    };
    let delivered = || reports.iter().any(|report| report.kind == ReportKind::Delivered);
    let delivered = || delivered().then(|| (MessageState::Delivered, String::new()));
    failed(true).or_else(delivered).or_else(|| failed(false))
}

fn soft_bounces(known: &EffectContext<'_>) -> Option<Suppression> {
    let nth = usize::try_from(known.most).ok()?.checked_sub(1)?;
    let at = *known.soft_bounced.get(nth)?;
    let detail = format!("messages in a row that bounced softly: {}", known.most);
    Some(build_suppression(known.message, SuppressionReason::SoftBounces, detail, at))
}

fn build_suppression(message: &MessageRecord, reason: SuppressionReason, detail: String, at: Timestamp) -> Suppression {
    let (tenant, address) = (message.origin.tenant().to_owned(), message.envelope_to.clone());
    Suppression { tenant, address, reason, detail, at }
}

fn withdrawal_entry(known: &EffectContext<'_>) -> AuditEntry {
    let by = known.relay.map(|relay| format!(" by the relay {relay}")).unwrap_or_default();
    let why = format!("unsubscribed{by} from message {}", known.message.id);
    AuditEntry { at: known.now, actor: AuditActor::Recipient, action: WITHDRAW.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::settings::StreamName;
    use crate::{MessageKey, delivery_events::EnhancedStatus};

    const HARD: ReportKind = ReportKind::Bounced(BounceKind::Hard);
    const SOFT: ReportKind = ReportKind::Bounced(BounceKind::Soft);
    const POLICY: ReportKind = ReportKind::Bounced(BounceKind::Policy);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
    }

    fn report(kind: ReportKind, seconds: i64) -> DeliveryReport {
        let status = kind.bounce().map(|bounce| match bounce {
            BounceKind::Hard => EnhancedStatus(5, 1, 1),
            BounceKind::Soft => EnhancedStatus(4, 2, 2),
            BounceKind::Policy => EnhancedStatus(5, 7, 1),
        });
        DeliveryReport { status, ..DeliveryReport::new(kind, at(seconds)) }
    }

    fn never_sent(kind: ReportKind, seconds: i64) -> DeliveryReport {
        DeliveryReport { never_sent: true, ..report(kind, seconds) }
    }

    fn message(origin: MessageOrigin) -> MessageRecord {
        MessageRecord {
            id: Uuid::nil(),
            origin,
            stream: StreamName::Bulk,
            state: MessageState::Sent,
            why: String::new(),
            envelope_to: "ann@example.com".into(),
            message_id: "m@example.com".into(),
            subject: "News".into(),
            created_at: at(0),
            made_at: at(0),
            made_from: String::new(),
            sent_at: Some(at(1)),
            closed_at: Some(at(1)),
            attempts: 1,
        }
    }

    fn digest() -> MessageRecord {
        message(MessageOrigin::Digest(Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()))
    }

    fn single() -> MessageRecord {
        let key = MessageKey::new("acme".into(), "k".into()).unwrap();
        message(MessageOrigin::Single { key, user: None, content_sha256: String::new() })
    }

    fn decided(message: &MessageRecord, reports: &[DeliveryReport], soft: &[Timestamp]) -> DeliveryEffects {
        let known = EffectContext { message, reports, soft_bounced: soft, most: 2, relay: Some("ses"), now: at(100) };
        delivery_effects(&known, reports.last().unwrap())
    }

    #[test]
    fn each_event_changes_what_it_should_and_nothing_else() {
        let failed = |why: &str| Some((MessageState::Failed, why.to_owned()));
        let delivered = Some((MessageState::Delivered, String::new()));
        for (kind, taken, state, suppress, withdraws) in [
            (ReportKind::Delivered, true, delivered, None, false),
            (ReportKind::Deferred, false, None, None, false),
            (HARD, true, failed("bounced: 5.1.1"), Some(SuppressionReason::HardBounce), false),
            (SOFT, true, failed("soft bounce: 4.2.2"), None, false),
            (POLICY, true, failed("refused by policy: 5.7.1"), None, false),
            (ReportKind::Complained, false, None, Some(SuppressionReason::Complaint), false),
            (ReportKind::Opened, false, None, None, false),
            (ReportKind::Clicked, false, None, None, false),
            (ReportKind::Unsubscribed, false, None, None, true),
        ] {
            let effects = decided(&digest(), &[report(kind, 5)], &[]);
            assert_eq!((effects.taken, effects.state), (taken, state), "{kind}");
            assert_eq!(effects.suppress.map(|suppression| suppression.reason), suppress, "{kind}");
            assert_eq!(
                (effects.withdraw.is_some(), effects.forgiven),
                (withdraws, kind == ReportKind::Delivered),
                "{kind}"
            );
        }
    }

    #[test]
    fn a_hard_bounce_outranks_delivered_which_outranks_a_soft_bounce() {
        let words = |kinds: &[ReportKind]| {
            let reports: Vec<_> = (0..).zip(kinds).map(|(n, kind)| report(*kind, n)).collect();
            let (state, why) = decided(&digest(), &reports, &[]).state.unwrap();
            format!("{} {why}", state.name()).trim().to_owned()
        };
        for (kinds, expected) in [
            (&[HARD, ReportKind::Delivered][..], "failed bounced: 5.1.1"),
            (&[ReportKind::Delivered, HARD], "failed bounced: 5.1.1"),
            (&[SOFT, ReportKind::Delivered], "delivered"),
            (&[ReportKind::Delivered, SOFT], "delivered"),
            (&[POLICY, ReportKind::Delivered], "failed refused by policy: 5.7.1"),
            (&[SOFT, POLICY, HARD], "failed refused by policy: 5.7.1"),
        ] {
            assert_eq!(words(kinds), expected, "{kinds:?}");
        }
    }

    #[test]
    fn a_message_that_was_kept_back_failed_unless_a_copy_was_delivered() {
        let failed = |why: &str| Some((MessageState::Failed, why.to_owned()));
        for (kind, origin, why, suppress, withdraws) in [
            (HARD, digest(), "bounced, never sent: 5.1.1", Some(SuppressionReason::HardBounce), false),
            (POLICY, digest(), "refused by policy, never sent: 5.7.1", None, false),
            (ReportKind::Complained, digest(), "complained, never sent", Some(SuppressionReason::Complaint), false),
            (ReportKind::Unsubscribed, digest(), "unsubscribed, never sent", None, true),
            (
                ReportKind::Unsubscribed,
                single(),
                "unsubscribed, never sent",
                Some(SuppressionReason::Unsubscribed),
                false,
            ),
        ] {
            let effects = decided(&origin, &[never_sent(kind, 5)], &[]);
            assert_eq!((effects.taken, effects.state), (true, failed(why)));
            assert_eq!(effects.suppress.map(|suppression| suppression.reason), suppress, "{why}");
            assert_eq!(effects.withdraw.is_some(), withdraws, "{why}");
            let delivered = Some((MessageState::Delivered, String::new()));
            let second = [report(ReportKind::Delivered, 4), never_sent(kind, 5)];
            assert_eq!(decided(&origin, &second, &[]).state, delivered, "{why}");
        }
        let both = decided(&digest(), &[report(ReportKind::Delivered, 3), never_sent(HARD, 4), report(HARD, 5)], &[]);
        assert_eq!(both.state, failed("bounced: 5.1.1"), "the delivered copy came back");
    }

    #[test]
    fn soft_bounces_suppress_when_there_are_enough_of_them_in_a_row() {
        let reason = |kind: ReportKind, soft: &[Timestamp]| {
            let suppress = decided(&digest(), &[report(kind, 9)], soft).suppress;
            suppress.map(|suppression| (suppression.reason, suppression.at))
        };
        assert_eq!(reason(SOFT, &[at(1)]), None);
        assert_eq!(reason(SOFT, &[at(1), at(9)]), Some((SuppressionReason::SoftBounces, at(9))));
        assert_eq!(
            reason(ReportKind::Delivered, &[at(8), at(9)]),
            Some((SuppressionReason::SoftBounces, at(9))),
            "of an earlier one"
        );
        assert_eq!(reason(POLICY, &[at(1), at(9)]), None);
    }

    #[test]
    fn unsubscribing_withdraws_a_digest_type_or_all_bulk_mail() {
        let withdrawn = decided(&digest(), &[report(ReportKind::Unsubscribed, 5)], &[]);
        let (key, entry) = withdrawn.withdraw.unwrap();
        assert_eq!((key.to_string().as_str(), &entry.actor), ("acme/activity/ann", &AuditActor::Recipient));
        assert!(entry.why.starts_with("unsubscribed by the relay ses from message 0000"), "{}", entry.why);
        assert!(withdrawn.suppress.is_none());
        let suppressed = decided(&single(), &[report(ReportKind::Unsubscribed, 5)], &[]);
        assert!(suppressed.withdraw.is_none());
        assert_eq!(suppressed.suppress.map(|suppression| suppression.reason), Some(SuppressionReason::Unsubscribed));
    }

    proptest! {
        #[test]
        fn order_and_repetition_of_reports_change_nothing(
            mut events in proptest::collection::vec((0..ReportKind::ALL.len(), 0_i64..4, any::<bool>()), 1..8),
            again in any::<proptest::sample::Index>(),
            to in any::<proptest::sample::Index>(),
        ) {
            let reports = |events: &[(usize, i64, bool)]| {
                let report = |(kind, seconds, never_sent): &(usize, i64, bool)| {
                    DeliveryReport { never_sent: *never_sent, ..report(ReportKind::ALL[*kind], *seconds) }
                };
                events.iter().map(report).collect::<Vec<_>>()
            };
            let before = state_from_reports(&reports(&events));
            let duplicate = events[again.index(events.len())];
            events.insert(to.index(events.len()), duplicate);
            events.reverse();
            prop_assert_eq!(state_from_reports(&reports(&events)), before);
        }
    }
}
