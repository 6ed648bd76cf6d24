//! The effects of a delivery event, as a pure function of the message and its reports. Order and repeats of
//! events do not matter.

use jiff::Timestamp;

use super::report::{Bounce, Kind, Report};
use crate::{
    Key,
    records::{Actor, AuditEntry, MessageRecord, MessageState, Origin, Reason, Suppression},
};

/// Audit action: the recipient unsubscribed from a digest type.
pub const WITHDRAW: &str = "withdraw consent";
/// Audit action: the recipient subscribed to a digest type again.
pub const GRANT: &str = "grant consent";

pub struct Known<'a> {
    pub message: &'a MessageRecord,
    /// All reports about the message, including the new one.
    pub reports: &'a [Report],
    /// Counted from the first since the address last accepted a message.
    pub soft_bounced: &'a [Timestamp],
    /// Consecutive soft bounces that suppress the address.
    pub most: u32,
    pub relay: Option<&'a str>,
    pub now: Timestamp,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// Marks a message without an outcome as sent.
    pub taken: bool,
    /// For a message with an outcome.
    pub state: Option<(MessageState, String)>,
    /// Resets the soft bounces. Apply this before `suppress`.
    pub forgiven: bool,
    pub suppress: Option<Suppression>,
    /// Unless the recipient has given consent again since.
    pub withdraw: Option<(Key, AuditEntry)>,
}

#[must_use]
pub fn effects(known: &Known<'_>, new: &Report) -> Effects {
    let Known { message, reports, .. } = known;
    let suppress = |reason| Some(suppression(message, reason, new.to_string(), new.occurred_at));
    let taken = Effects { taken: true, state: state(reports), ..Effects::default() };
    match new.kind {
        Kind::Delivered => Effects { forgiven: true, suppress: soft_bounces(known), ..taken },
        Kind::Bounced(Bounce::Hard) => Effects { suppress: suppress(Reason::HardBounce), ..taken },
        Kind::Bounced(Bounce::Soft) => Effects { suppress: soft_bounces(known), ..taken },
        Kind::Bounced(Bounce::Policy) => taken,
        // A provider which drops a message because of an earlier complaint did have the message, so this is
        // its outcome.
        Kind::Complained | Kind::Unsubscribed => {
            let base = if new.never_sent { taken } else { Effects::default() };
            match (new.kind, &message.origin) {
                (Kind::Complained, _) => Effects { suppress: suppress(Reason::Complaint), ..base },
                (_, Origin::Digest(key)) => Effects { withdraw: Some((key.clone(), withdrawal(known))), ..base },
                (_, Origin::Single { .. }) => Effects { suppress: suppress(Reason::Unsubscribed), ..base },
            }
        }
        // Opens and clicks may come from machines, and a deferred message has no outcome.
        Kind::Deferred | Kind::Opened | Kind::Clicked => Effects::default(),
    }
}

/// A final bounce overrides a delivery report; a delivery report overrides a copy the provider kept back and
/// a soft bounce. The earliest failure gives the reason.
fn state(reports: &[Report]) -> Option<(MessageState, String)> {
    let failed = |is_final: bool| {
        let failures = reports.iter().filter(|report| report.never_sent || report.kind.bounce().is_some());
        let failures = failures.filter(|report| report.is_final() == is_final);
        let why = failures.map(|report| (report.occurred_at, report.to_string())).min();
        why.map(|(_, why)| (MessageState::Failed, why))
    };
    let delivered = || reports.iter().any(|report| report.kind == Kind::Delivered);
    let delivered = || delivered().then(|| (MessageState::Delivered, String::new()));
    failed(true).or_else(delivered).or_else(|| failed(false))
}

fn soft_bounces(known: &Known<'_>) -> Option<Suppression> {
    let nth = usize::try_from(known.most).ok()?.checked_sub(1)?;
    let at = *known.soft_bounced.get(nth)?;
    let detail = format!("messages in a row that bounced softly: {}", known.most);
    Some(suppression(known.message, Reason::SoftBounces, detail, at))
}

fn suppression(message: &MessageRecord, reason: Reason, detail: String, at: Timestamp) -> Suppression {
    let (tenant, address) = (message.origin.tenant().to_owned(), message.envelope_to.clone());
    Suppression { tenant, address, reason, detail, at }
}

fn withdrawal(known: &Known<'_>) -> AuditEntry {
    let by = known.relay.map(|relay| format!(" by the relay {relay}")).unwrap_or_default();
    let why = format!("unsubscribed{by} from message {}", known.message.id);
    AuditEntry { at: known.now, actor: Actor::Recipient, action: WITHDRAW.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::settings::StreamName;
    use crate::{MessageKey, delivery_events::Status};

    const HARD: Kind = Kind::Bounced(Bounce::Hard);
    const SOFT: Kind = Kind::Bounced(Bounce::Soft);
    const POLICY: Kind = Kind::Bounced(Bounce::Policy);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
    }

    fn report(kind: Kind, seconds: i64) -> Report {
        let status = kind.bounce().map(|bounce| match bounce {
            Bounce::Hard => Status(5, 1, 1),
            Bounce::Soft => Status(4, 2, 2),
            Bounce::Policy => Status(5, 7, 1),
        });
        Report { status, ..Report::new(kind, at(seconds)) }
    }

    fn never_sent(kind: Kind, seconds: i64) -> Report {
        Report { never_sent: true, ..report(kind, seconds) }
    }

    fn message(origin: Origin) -> MessageRecord {
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
        message(Origin::Digest(Key::new("acme".into(), "activity".into(), "ann".into()).unwrap()))
    }

    fn single() -> MessageRecord {
        let key = MessageKey::new("acme".into(), "k".into()).unwrap();
        message(Origin::Single { key, user: None, content_sha256: String::new() })
    }

    /// Returns the effects of the last report.
    fn decided(message: &MessageRecord, reports: &[Report], soft: &[Timestamp]) -> Effects {
        let known = Known { message, reports, soft_bounced: soft, most: 2, relay: Some("ses"), now: at(100) };
        effects(&known, reports.last().unwrap())
    }

    #[test]
    fn each_event_changes_what_it_should_and_nothing_else() {
        let failed = |why: &str| Some((MessageState::Failed, why.to_owned()));
        let delivered = Some((MessageState::Delivered, String::new()));
        for (kind, taken, state, suppress, withdraws) in [
            (Kind::Delivered, true, delivered, None, false),
            (Kind::Deferred, false, None, None, false),
            (HARD, true, failed("bounced: 5.1.1"), Some(Reason::HardBounce), false),
            (SOFT, true, failed("soft bounce: 4.2.2"), None, false),
            (POLICY, true, failed("refused by policy: 5.7.1"), None, false),
            (Kind::Complained, false, None, Some(Reason::Complaint), false),
            (Kind::Opened, false, None, None, false),
            (Kind::Clicked, false, None, None, false),
            (Kind::Unsubscribed, false, None, None, true),
        ] {
            let effects = decided(&digest(), &[report(kind, 5)], &[]);
            assert_eq!((effects.taken, effects.state), (taken, state), "{kind}");
            assert_eq!(effects.suppress.map(|suppression| suppression.reason), suppress, "{kind}");
            assert_eq!((effects.withdraw.is_some(), effects.forgiven), (withdraws, kind == Kind::Delivered), "{kind}");
        }
    }

    #[test]
    fn a_hard_bounce_outranks_delivered_which_outranks_a_soft_bounce() {
        let words = |kinds: &[Kind]| {
            let reports: Vec<_> = (0..).zip(kinds).map(|(n, kind)| report(*kind, n)).collect();
            let (state, why) = decided(&digest(), &reports, &[]).state.unwrap();
            format!("{} {why}", state.name()).trim().to_owned()
        };
        for (kinds, expected) in [
            (&[HARD, Kind::Delivered][..], "failed bounced: 5.1.1"),
            (&[Kind::Delivered, HARD], "failed bounced: 5.1.1"),
            (&[SOFT, Kind::Delivered], "delivered"),
            (&[Kind::Delivered, SOFT], "delivered"),
            (&[POLICY, Kind::Delivered], "failed refused by policy: 5.7.1"),
            (&[SOFT, POLICY, HARD], "failed refused by policy: 5.7.1"),
        ] {
            assert_eq!(words(kinds), expected, "{kinds:?}");
        }
    }

    #[test]
    fn a_message_that_was_kept_back_failed_unless_a_copy_was_delivered() {
        let failed = |why: &str| Some((MessageState::Failed, why.to_owned()));
        for (kind, origin, why, suppress, withdraws) in [
            (HARD, digest(), "bounced, never sent: 5.1.1", Some(Reason::HardBounce), false),
            (POLICY, digest(), "refused by policy, never sent: 5.7.1", None, false),
            (Kind::Complained, digest(), "complained, never sent", Some(Reason::Complaint), false),
            (Kind::Unsubscribed, digest(), "unsubscribed, never sent", None, true),
            (Kind::Unsubscribed, single(), "unsubscribed, never sent", Some(Reason::Unsubscribed), false),
        ] {
            let effects = decided(&origin, &[never_sent(kind, 5)], &[]);
            assert_eq!((effects.taken, effects.state), (true, failed(why)));
            assert_eq!(effects.suppress.map(|suppression| suppression.reason), suppress, "{why}");
            assert_eq!(effects.withdraw.is_some(), withdraws, "{why}");
            let delivered = Some((MessageState::Delivered, String::new()));
            let second = [report(Kind::Delivered, 4), never_sent(kind, 5)];
            assert_eq!(decided(&origin, &second, &[]).state, delivered, "{why}");
        }
        let both = decided(&digest(), &[report(Kind::Delivered, 3), never_sent(HARD, 4), report(HARD, 5)], &[]);
        assert_eq!(both.state, failed("bounced: 5.1.1"), "the delivered copy came back");
    }

    #[test]
    fn soft_bounces_suppress_when_there_are_enough_of_them_in_a_row() {
        let reason = |kind: Kind, soft: &[Timestamp]| {
            let suppress = decided(&digest(), &[report(kind, 9)], soft).suppress;
            suppress.map(|suppression| (suppression.reason, suppression.at))
        };
        assert_eq!(reason(SOFT, &[at(1)]), None);
        assert_eq!(reason(SOFT, &[at(1), at(9)]), Some((Reason::SoftBounces, at(9))));
        assert_eq!(reason(Kind::Delivered, &[at(8), at(9)]), Some((Reason::SoftBounces, at(9))), "of an earlier one");
        assert_eq!(reason(POLICY, &[at(1), at(9)]), None);
    }

    #[test]
    fn unsubscribing_withdraws_a_digest_type_or_all_bulk_mail() {
        let withdrawn = decided(&digest(), &[report(Kind::Unsubscribed, 5)], &[]);
        let (key, entry) = withdrawn.withdraw.unwrap();
        assert_eq!((key.to_string().as_str(), &entry.actor), ("acme/activity/ann", &Actor::Recipient));
        assert!(entry.why.starts_with("unsubscribed by the relay ses from message 0000"), "{}", entry.why);
        assert!(withdrawn.suppress.is_none());
        let suppressed = decided(&single(), &[report(Kind::Unsubscribed, 5)], &[]);
        assert!(suppressed.withdraw.is_none());
        assert_eq!(suppressed.suppress.map(|suppression| suppression.reason), Some(Reason::Unsubscribed));
    }

    proptest! {
        #[test]
        fn order_and_repetition_of_reports_change_nothing(
            mut events in proptest::collection::vec((0..Kind::ALL.len(), 0_i64..4, any::<bool>()), 1..8),
            again in any::<proptest::sample::Index>(),
            to in any::<proptest::sample::Index>(),
        ) {
            let reports = |events: &[(usize, i64, bool)]| {
                let report = |(kind, seconds, never_sent): &(usize, i64, bool)| {
                    Report { never_sent: *never_sent, ..report(Kind::ALL[*kind], *seconds) }
                };
                events.iter().map(report).collect::<Vec<_>>()
            };
            let before = state(&reports(&events));
            let duplicate = events[again.index(events.len())];
            events.insert(to.index(events.len()), duplicate);
            events.reverse();
            prop_assert_eq!(state(&reports(&events)), before);
        }
    }
}
