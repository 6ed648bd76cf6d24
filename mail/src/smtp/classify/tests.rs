//! The table of outcomes, and the laws that hold for every reply.

use super::{Follows::OpenBreaker, *};

#[test]
fn each_row_of_the_table_has_its_class() {
    for row in OUTCOMES {
        assert_eq!(classify(row.phase, &row.event.to_smtp_event()), row.class, "{row:?}");
    }
}

#[test]
fn the_same_class_is_always_followed_by_the_same_step() {
    for row in OUTCOMES {
        let first = OUTCOMES.iter().find(|other| other.class == row.class).unwrap();
        // A relay that wants fewer messages may say for how long.
        let same = |one, other| one == other || matches!((one, other), (OpenBreaker(_), OpenBreaker(_)));
        assert!(same(first.follows, row.follows), "{row:?} and {first:?}");
    }
}

#[test]
fn a_lost_or_silent_attempt_is_ambiguous_only_after_the_dot() {
    for event in [SmtpEvent::Lost, SmtpEvent::Silent] {
        for phase in Phase::ALL.into_iter().take_while(|phase| *phase < Phase::Dot) {
            assert_eq!(classify(phase, &event), AttemptClass::Deferred, "{phase:?}");
        }
        assert_eq!(classify(Phase::Dot, &event), AttemptClass::Ambiguous);
    }
}

#[test]
fn a_transient_reply_is_never_permanent_and_never_blames_the_recipient() {
    for phase in Phase::ALL.into_iter().take_while(|phase| *phase <= Phase::Dot) {
        for code in 400..500 {
            for text in ["", "4.1.1 x", "4.2.2 x", "4.7.1 x", "4.3.4 x"] {
                let class = classify(phase, &SmtpEvent::Reply(Reply::new(code, text)));
                let is_transient = matches!(class, AttemptClass::Deferred | AttemptClass::Throttled);
                assert!(is_transient, "{phase:?} {code} {text}: {class:?}");
            }
        }
    }
}
