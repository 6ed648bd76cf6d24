//! What opens and closes the breaker as a table, and general properties.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

fn message(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// A relay after these observations, one per second, each from its own message.
fn after(signs: &[RelayObservation]) -> CircuitBreaker {
    (1_i64..).zip(signs).fold(CircuitBreaker::default(), |breaker, (second, sign)| {
        let message = message(second.unsigned_abs().into());
        breaker.after_attempt(message, *sign, "421 no", at(second)).unwrap_or(breaker)
    })
}

/// Why it is open, and for how many seconds.
fn open(breaker: &CircuitBreaker) -> Option<(BreakerCause, i64)> {
    breaker.open.as_ref().map(|open| (open.cause, open.until.duration_since(open.since).as_secs()))
}

/// `breaker` with message 7 as the probe.
fn tried(breaker: &CircuitBreaker, now: Timestamp) -> CircuitBreaker {
    match breaker.admit_message(message(7), now) {
        BreakerDecision::Try(next) => *next,
        other => panic!("{other:?}"),
    }
}

/// A refused recipient at a relay used for several domains.
const fn refused(recipient: u32, domain: u32) -> RelayObservation {
    RelayObservation::Refused { recipient, domain, is_alone: false, ended: false }
}

const OUTAGE: RelayObservation = RelayObservation::Fault(BreakerCause::Outage);

#[test]
fn only_faults_of_the_relay_open_its_breaker() {
    let (well, bounced) = (RelayObservation::Well(1), RelayObservation::Bounced);
    for (signs, expected) in [
        (vec![RelayObservation::Fault(BreakerCause::Policy)], Some((BreakerCause::Policy, 300))),
        (vec![RelayObservation::Fault(BreakerCause::Configuration)], Some((BreakerCause::Configuration, 300))),
        (vec![RelayObservation::Fault(BreakerCause::Throttled)], Some((BreakerCause::Throttled, 60))),
        (vec![OUTAGE; 4], None),
        (vec![OUTAGE; 5], Some((BreakerCause::Outage, 30))),
        ([vec![OUTAGE; 4], vec![well], vec![OUTAGE; 4]].concat(), None),
        ([vec![OUTAGE; 4], vec![RelayObservation::Answered], vec![OUTAGE; 4]].concat(), None),
        ([vec![OUTAGE; 4], vec![RelayObservation::Nothing], vec![OUTAGE]].concat(), Some((BreakerCause::Outage, 30))),
        (vec![bounced; 99], None),
        (vec![bounced; 100], Some((BreakerCause::Bounces, 1800))),
        ([vec![well; 90], vec![bounced; 9]].concat(), None),
        ([vec![well; 90], vec![bounced; 10]].concat(), Some((BreakerCause::Bounces, 1800))),
        ([vec![RelayObservation::Well(5000)], vec![bounced; 11]].concat(), None),
        ([vec![RelayObservation::Well(5000)], vec![bounced; 12]].concat(), Some((BreakerCause::Bounces, 1800))),
        (vec![RelayObservation::Answered, RelayObservation::Nothing], None),
    ] {
        assert_eq!(open(&after(&signs)), expected, "{} x {:?} ...", signs.len(), signs.first());
    }
}

#[test]
fn a_late_bounce_counts_instead_of_its_acceptance() {
    let mut breaker = after(&[RelayObservation::Well(100)]);
    for n in 1..10 {
        breaker = breaker.after_report(DeliveryEvidence::Bounced, at(200)).unwrap();
        assert_eq!((breaker.sent, breaker.bounced, open(&breaker)), (100 - n, n, None));
    }
    let tenth = breaker.after_report(DeliveryEvidence::Bounced, at(201)).unwrap();
    assert_eq!(open(&tenth), Some((BreakerCause::Bounces, 1800)));
    assert_eq!(tenth.after_report(DeliveryEvidence::Bounced, at(202)), None);
    assert_eq!(
        tried(&tenth, at(5000)).after_report(DeliveryEvidence::Bounced, at(5001)),
        None,
        "the probe is another message"
    );
    assert_eq!(CircuitBreaker::default().after_report(DeliveryEvidence::Bounced, at(1)).unwrap().bounced, 1);
}

#[test]
fn three_complaints_in_a_thousand_messages_open_a_breaker() {
    let complaints = |taken: u32, complaints: usize| {
        let taken = after(&[RelayObservation::Well(taken)]);
        let told =
            |breaker: CircuitBreaker, _| breaker.after_report(DeliveryEvidence::Complained, at(9)).unwrap_or(breaker);
        (0..complaints).fold(taken, told)
    };
    for (taken, of, expected) in [
        (0, 2, None),
        (0, 3, Some((BreakerCause::Complaints, 1800))),
        (50, 3, Some((BreakerCause::Complaints, 1800))),
        (1_000, 2, None),
        (1_000, 3, Some((BreakerCause::Complaints, 1800))),
        (1_001, 3, None),
        (1_900, 5, None),
        (1_900, 6, Some((BreakerCause::Complaints, 1800))),
        (500_000, 3, Some((BreakerCause::Complaints, 1800))),
    ] {
        assert_eq!(open(&complaints(taken, of)), expected, "{of} of {taken}");
    }
    let half = complaints(1_900, 5).after_attempt(message(1), RelayObservation::Well(100), "", at(10)).unwrap();
    assert_eq!((half.taken, half.complained), (1_000, 2), "the older half is forgotten");
    let opened = complaints(0, 3);
    assert_eq!(opened.after_report(DeliveryEvidence::Complained, at(10)), None);
    let closed = tried(&opened, at(5_000)).after_attempt(message(7), RelayObservation::Well(1), "", at(5_000));
    assert_eq!(closed, Some(CircuitBreaker::closed()));
}

#[test]
fn a_sign_is_split_between_the_relay_and_the_mail() {
    for (sign, of_relay, of_mail) in [
        (RelayObservation::Well(7), RelayObservation::Well(0), RelayObservation::Well(7)),
        (RelayObservation::Bounced, RelayObservation::Works, RelayObservation::Bounced),
        (refused(1, 1), refused(1, 1), RelayObservation::Nothing),
        (RelayObservation::Answered, RelayObservation::Answered, RelayObservation::Nothing),
        (OUTAGE, OUTAGE, RelayObservation::Nothing),
        (
            RelayObservation::Fault(BreakerCause::Policy),
            RelayObservation::Fault(BreakerCause::Policy),
            RelayObservation::Nothing,
        ),
        (RelayObservation::Nothing, RelayObservation::Nothing, RelayObservation::Nothing),
    ] {
        assert_eq!((sign.of_relay(), sign.of_mail()), (of_relay, of_mail), "{sign:?}");
    }
    let mail = BreakerCause::ALL.into_iter().filter(|cause| cause.is_about_mail());
    assert_eq!(mail.collect::<Vec<_>>(), [BreakerCause::Bounces, BreakerCause::Complaints]);
}

#[test]
fn the_name_of_a_breaker_has_its_relay_and_its_tenant() {
    for (relay, tenant, expected) in
        [("ses", None, "ses"), ("ses", Some("acme"), "ses/acme"), ("ses", Some("a/b"), "ses/a/b")]
    {
        let name = breaker_name(relay, tenant);
        assert_eq!((name.as_str(), split_name(&name)), (expected, (relay, tenant)));
    }
}

#[test]
fn failures_that_are_far_apart_are_no_outage() {
    let mut breaker = CircuitBreaker::default();
    for n in 0..40 {
        breaker = breaker.after_attempt(message(1), OUTAGE, "", at(n * 76)).unwrap();
    }
    assert_eq!((open(&breaker), breaker.failures), (None, 4));
}

#[test]
fn one_message_at_a_time_probes_an_open_relay() {
    let breaker = after(&[RelayObservation::Fault(BreakerCause::Policy)]);
    assert_eq!(breaker.admit_message(message(7), at(2)), BreakerDecision::Wait { until: at(7) });
    assert_eq!(breaker.admit_message(message(7), at(300)), BreakerDecision::Wait { until: at(301) });
    let tried = tried(&breaker, at(301));
    assert_eq!(tried.admit_message(message(8), at(302)), BreakerDecision::Wait { until: at(302 + 300) });
    // After a crash the same message asks again.
    assert!(matches!(tried.admit_message(message(7), at(303)), BreakerDecision::Try(_)));
    assert!(
        matches!(tried.admit_message(message(8), at(301 + 900)), BreakerDecision::Try(_)),
        "it is not waited for without end"
    );
    // An attempt that began before changes nothing.
    assert_eq!(tried.after_attempt(message(8), RelayObservation::Well(1), "", at(302)), None);
    assert_eq!(tried.after_attempt(message(8), RelayObservation::Fault(BreakerCause::Outage), "", at(302)), None);
}

#[test]
fn a_probe_closes_the_breaker_or_opens_it_for_longer() {
    let [policy, outage, bounces, login] =
        [BreakerCause::Policy, BreakerCause::Outage, BreakerCause::Bounces, BreakerCause::Configuration].map(|cause| {
            let mut breaker = CircuitBreaker::default().open_for_cause(cause, "no", at(0), 1);
            breaker.open.as_mut().unwrap().until = at(100);
            breaker
        });
    for (breaker, sign, expected) in [
        (&policy, RelayObservation::Well(1), None),
        (&policy, RelayObservation::Bounced, None),
        (&policy, RelayObservation::Fault(BreakerCause::Policy), Some((BreakerCause::Policy, 100 + 600))),
        (&policy, OUTAGE, Some((BreakerCause::Outage, 100 + 60))),
        (&policy, RelayObservation::Answered, Some((BreakerCause::Policy, 100))),
        (&policy, RelayObservation::Nothing, Some((BreakerCause::Policy, 100))),
        (&outage, RelayObservation::Answered, None),
        (&login, RelayObservation::Answered, None),
        (&outage, RelayObservation::Bounced, None),
        (&bounces, RelayObservation::Bounced, Some((BreakerCause::Bounces, 100 + 3600))),
        (&bounces, RelayObservation::Answered, Some((BreakerCause::Bounces, 100))),
        (&bounces, RelayObservation::Well(1), None),
    ] {
        let next = tried(breaker, at(100)).after_attempt(message(7), sign, "no", at(100)).unwrap();
        assert_eq!(open(&next), expected, "{:?} {sign:?}", open(breaker));
        if expected.is_some() {
            assert_eq!(next.open.unwrap().probe, None, "the next message may try it");
        } else {
            assert_eq!(next, CircuitBreaker::closed());
        }
    }
}

#[test]
fn three_recipients_in_a_row_that_are_refused_open_the_breaker() {
    let alone = |recipient| RelayObservation::Refused { recipient, domain: 1, is_alone: true, ended: false };
    let open_now = Some((BreakerCause::Refusals, 300));
    for (signs, expected) in [
        (vec![refused(1, 1), refused(2, 1), refused(3, 2)], open_now),
        (vec![refused(1, 1), refused(2, 1), refused(3, 1)], None),
        (vec![refused(1, 1), refused(2, 1), refused(3, 1), refused(4, 2)], open_now),
        (vec![alone(1), alone(2), alone(3)], open_now),
        (vec![alone(1), alone(2)], None),
        // One recipient counts once.
        (vec![refused(1, 1), refused(1, 1), refused(2, 2)], None),
        (vec![refused(1, 1), refused(2, 2), RelayObservation::Well(1), refused(3, 3)], None),
        (vec![refused(1, 1), refused(2, 2), RelayObservation::Well(0), refused(3, 3)], None),
        // An address that does not exist is not accepted, and is not refused like the others.
        (vec![refused(1, 1), refused(2, 2), RelayObservation::Bounced, refused(3, 3)], open_now),
        (
            vec![refused(1, 1), refused(2, 2), RelayObservation::Answered, RelayObservation::Works, refused(3, 3)],
            open_now,
        ),
    ] {
        assert_eq!(open(&after(&signs)), expected, "{signs:?}");
    }
}

#[test]
fn a_relay_has_one_domain_if_its_latest_hundred_messages_have() {
    let run = |domains: &[(u32, u32)]| {
        let mut run = DomainRun::default();
        domains.iter().flat_map(|(domain, count)| (0..*count).map(move |_| *domain)).for_each(|domain| {
            run.count_message(domain);
        });
        run
    };
    let (known, mixed) = (RefusalHistory::default(), RefusalHistory { is_mixed: true, ..RefusalHistory::default() });
    for (domains, new, old) in [
        (&[(1, 3)][..], true, false),
        (&[(1, 100)], true, true),
        (&[(1, 3), (2, 1)], false, false),
        (&[(1, 3), (2, 99)], false, false),
        (&[(1, 3), (2, 100)], true, true),
    ] {
        let run = run(domains);
        assert_eq!((run.is_alone(&known), run.is_alone(&mixed)), (new, old), "{domains:?}");
    }
    let mut run = DomainRun::default();
    assert_eq!([1, 1, 2, 2, 1].map(|domain| run.count_message(domain)), [false, false, true, false, true]);
}

#[test]
fn a_message_opens_a_breaker_once_and_tries_it_after_the_others() {
    let policy = RelayObservation::Fault(BreakerCause::Policy);
    let opened = after(&[policy]);
    assert!(
        !CircuitBreaker::default().charges_message(message(1), AttemptClass::Policy),
        "the first time is the relay's"
    );
    assert_eq!(opened.admit_message(message(1), at(301)), BreakerDecision::Wait { until: at(361) });
    assert!(matches!(opened.admit_message(message(2), at(301)), BreakerDecision::Try(_)));
    // Nobody else waits: it is half open for the one that opened it.
    let BreakerDecision::Try(tries) = opened.admit_message(message(1), at(361)) else { panic!("not half open") };
    assert!(tries.charges_message(message(1), AttemptClass::Policy));
    let undecided = tries.after_attempt(message(1), policy, "no", at(362)).unwrap();
    assert_eq!(open(&undecided), Some((BreakerCause::Policy, 300)), "it does not open again");
    assert!(matches!(undecided.admit_message(message(2), at(362)), BreakerDecision::Try(_)));
    // Another one is accepted.
    let closed = tried(&opened, at(301)).after_attempt(message(7), RelayObservation::Well(1), "", at(302)).unwrap();
    assert!(
        closed.charges_message(message(1), AttemptClass::Policy)
            && !closed.charges_message(message(2), AttemptClass::Policy)
    );
    assert_eq!(closed.after_attempt(message(1), policy, "no", at(303)), None);
    assert_eq!(
        open(&closed.after_attempt(message(2), policy, "no", at(303)).unwrap()),
        Some((BreakerCause::Policy, 300))
    );
}

#[test]
fn the_message_that_opened_a_breaker_asks_seldom_and_tries_it_a_minute_after_the_others() {
    let opened = after(&[RelayObservation::Fault(BreakerCause::Policy)]);
    for (n, asks, tries) in [(1, 4, 361), (2, 7, 301)] {
        let (mut asked, mut now) = (0, at(1));
        while let BreakerDecision::Wait { until } = opened.admit_message(message(n), now) {
            (asked, now) = (asked + 1, until);
        }
        assert_eq!((asked, now), (asks, at(tries)), "{n}");
    }
}

/// Messages starting at these seconds, each to its own domain, at a relay that refuses all before `healed`.
/// Returns (ended, sent).
fn simulated(begin: &[i64], healed: i64) -> (usize, usize) {
    #[derive(Clone, Copy)]
    struct Waiting {
        at: i64,
        was_refused: bool,
    }
    let mut waiting: Vec<_> = begin.iter().map(|at| Some(Waiting { at: *at, was_refused: false })).collect();
    let (mut breaker, mut ended, mut sent) = (CircuitBreaker::default(), 0, 0);
    while let Some((n, Waiting { at: second, was_refused })) =
        waiting.iter().enumerate().filter_map(|(n, one)| Some((n, (*one)?))).min_by_key(|(_, one)| one.at)
    {
        if second > 86_400 * 3 {
            break;
        }
        let (id, now, tag) = (message(n as u128), at(second), u32::try_from(n).unwrap());
        match breaker.admit_message(id, now) {
            BreakerDecision::Wait { until } => {
                waiting[n] = Some(Waiting { at: until.duration_since(at(0)).as_secs().max(second + 1), was_refused });
                continue;
            }
            BreakerDecision::Try(next) => breaker = *next,
            BreakerDecision::Go => {}
        }
        let sign = if second >= healed {
            (waiting[n], sent) = (None, sent + 1);
            RelayObservation::Well(1)
        } else {
            let ends = breaker.charges_message(id, AttemptClass::Refused) && was_refused;
            waiting[n] = (!ends).then_some(Waiting { at: second + 60, was_refused: true });
            ended += usize::from(ends);
            RelayObservation::Refused { recipient: tag, domain: tag, is_alone: false, ended: ends }
        };
        breaker = breaker.after_attempt(id, sign, "550 no", now).unwrap_or(breaker);
    }
    (ended, sent)
}

#[test]
fn of_ten_messages_at_a_relay_that_refuses_all_at_most_two_end() {
    for (begin, most) in [
        ([0; 10], 0),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 0),
        ([0, 30, 90, 150, 200, 260, 330, 500, 600, 900], 2),
        ([0, 600, 1200, 1800, 2400, 3000, 3600, 4200, 4800, 5400], 2),
    ] {
        let (ended, sent) = simulated(&begin, i64::MAX);
        assert!(ended <= 2 && sent == 0, "{begin:?}: {ended} ended");
        let (ended, sent) = simulated(&begin, 7_200);
        assert!(ended <= most.max(2) && ended + sent == 10, "{begin:?}: {ended} ended, {sent} sent");
    }
    assert_eq!(simulated(&[0], i64::MAX), (1, 0), "one alone pays itself");
}

#[test]
fn a_relay_that_an_operator_opened_stays_open_until_closed() {
    let opened = CircuitBreaker::default().open_by_operator("they are moving", at(0));
    for days in [1, 1000] {
        assert!(matches!(opened.admit_message(message(7), at(86_400 * days)), BreakerDecision::Wait { .. }));
    }
    assert_eq!(opened.admit_message(message(7), at(0)), BreakerDecision::Wait { until: at(5) });
    assert_eq!(opened.admit_message(message(7), at(86_400)), BreakerDecision::Wait { until: at(86_700) });
    assert_eq!(CircuitBreaker::closed().admit_message(message(7), at(1)), BreakerDecision::Go);
}

fn any_sign() -> impl Strategy<Value = RelayObservation> {
    prop_oneof![
        (1..100_u32).prop_map(RelayObservation::Well),
        Just(RelayObservation::Bounced),
        Just(RelayObservation::Answered),
        Just(RelayObservation::Nothing),
        Just(RelayObservation::Works),
        (0..4_u32, 0..2_u32, any::<bool>(), any::<bool>()).prop_map(|(recipient, domain, is_alone, ended)| {
            RelayObservation::Refused { recipient, domain, is_alone, ended }
        }),
        prop::sample::select(&BreakerCause::ALL[..5]).prop_map(RelayObservation::Fault),
    ]
}

proptest! {
    /// Messages ask and return in any order: at most one probes an open relay, and none too early.
    #[test]
    fn never_do_two_messages_try_a_relay_at_once(steps in prop::collection::vec((0..4_u128, any_sign(), 0..400_i64), 1..200)) {
        let mut breaker = CircuitBreaker::default();
        let mut now = at(0);
        let mut trying: Option<(u128, Timestamp)> = None;
        for (n, sign, seconds) in steps {
            now += SignedDuration::from_secs(seconds);
            match breaker.admit_message(message(n), now) {
                BreakerDecision::Go => prop_assert!(breaker.open.is_none()),
                BreakerDecision::Wait { until } => prop_assert!(until > now && breaker.open.is_some()),
                BreakerDecision::Try(next) => {
                    let open = breaker.open.as_ref().unwrap();
                    prop_assert!(now >= open.until);
                    prop_assert!(trying.is_none_or(|(other, until)| other == n || now >= until));
                    trying = next.open.as_ref().and_then(|open| Some((n, open.probe.as_ref()?.until)));
                    breaker = *next;
                }
            }
            if let Some(next) = breaker.after_attempt(message(n), sign, "why", now) {
                if next.open.as_ref().is_none_or(|open| open.probe.is_none()) {
                    trying = None;
                }
                if let Some(open) = &next.open {
                    prop_assert!(open.times >= 1 && open.until >= open.since);
                }
                breaker = next;
            }
            prop_assert!(breaker.sent + breaker.bounced <= 2 * BOUNCE_OUTCOMES);
            prop_assert!(breaker.taken < 2 * COMPLAINT_OUTCOMES);
            prop_assert!(breaker.failures < OUTAGE_FAILURES);
        }
    }

    /// Whatever happened, a relay that works again is used again.
    #[test]
    fn a_relay_that_works_again_is_closed_by_one_message(signs in prop::collection::vec(any_sign(), 0..50)) {
        let breaker = after(&signs);
        let later = at(1_000_000);
        if let BreakerDecision::Try(tried) = breaker.admit_message(message(99_999), later) {
            let closed = tried.after_attempt(message(99_999), RelayObservation::Well(1), "", later).unwrap();
            prop_assert_eq!(closed.admit_message(message(1), later), BreakerDecision::Go);
        } else {
            prop_assert!(breaker.open.is_none());
        }
    }
}
