//! Whether a due window may become a digest now: a pure function of the facts and the time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tidings_workflows::contract::{Closed, Outcome, Window};

use crate::store::Facts;

/// A recipient who stays unknown for this long is given up (rule 33).
pub const UNKNOWN_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_mins(1);
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// Claim it.
    Admitted,
    /// The window goes on collecting until then.
    Later { until: Timestamp, why: String },
    /// It ends here.
    Refused(Closed),
}

/// Consent first, then suppression, then the pause, then whether there is anybody to write to.
#[must_use]
pub fn admit(facts: &Facts, window: &Window, now: Timestamp) -> Admission {
    if let Some(closed) = forbidden(facts) {
        return Admission::Refused(closed);
    }
    if let Some(until) = facts.preferences.paused_until.filter(|until| *until > now) {
        return Admission::Later { until, why: format!("paused until {until}") };
    }
    if facts.recipient.is_none() {
        return unknown(window, now);
    }
    Admission::Admitted
}

/// What no flush and no urgency overrides; checked again before each attempt to send (rule 28).
#[must_use]
pub fn forbidden(facts: &Facts) -> Option<Closed> {
    if !facts.consent {
        return Some(Closed { outcome: Outcome::Skipped, why: "the recipient opted out".to_owned() });
    }
    let reason = facts.suppressed.as_ref()?;
    Some(Closed { outcome: Outcome::Suppressed, why: format!("the address is suppressed: {reason}") })
}

/// Waits as long again as it has waited already, between a minute and an hour.
fn unknown(window: &Window, now: Timestamp) -> Admission {
    let waited = now.duration_since(window.due_at);
    if waited >= SignedDuration::try_from(UNKNOWN_AFTER).unwrap_or(SignedDuration::MAX) {
        let why = "the directory did not know the recipient for seven days".to_owned();
        return Admission::Refused(Closed { outcome: Outcome::Unknown, why });
    }
    let until = now.saturating_add(waited.clamp(FIRST_BACKOFF, LONGEST_BACKOFF)).unwrap_or(Timestamp::MAX);
    Admission::Later { until, why: "the directory does not know the recipient; import them".to_owned() }
}

#[cfg(test)]
mod tests {
    use tidings_workflows::Key;
    use uuid::Uuid;

    use super::*;
    use crate::store::{Preferences, Recipient};

    const DUE: &str = "2026-03-02T08:00:00Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window() -> Window {
        let key = Key::new("acme".into(), "activity".into(), "ann".into()).unwrap();
        Window { key, digest_id: Uuid::nil(), opened_at: at("2026-03-01T10:00:00Z"), due_at: at(DUE) }
    }

    fn facts() -> Facts {
        let recipient = Recipient {
            tenant: "acme".into(),
            user: "ann".into(),
            address: "ann@example.org".into(),
            name: String::new(),
            zone: String::new(),
            locale: String::new(),
        };
        Facts {
            recipient: Some(recipient),
            preferences: Preferences::default(),
            preferences_revision: 0,
            consent: true,
            suppressed: None,
            last_sent_at: None,
        }
    }

    #[test]
    fn a_known_recipient_who_wants_mail_is_admitted() {
        assert_eq!(admit(&facts(), &window(), at(DUE)), Admission::Admitted);
    }

    #[test]
    fn withdrawn_consent_outranks_everything_else() {
        let facts = Facts { consent: false, recipient: None, suppressed: Some("hard_bounce".into()), ..facts() };
        let Admission::Refused(closed) = admit(&facts, &window(), at(DUE)) else { panic!("was admitted") };
        assert_eq!(closed.outcome, Outcome::Skipped);
    }

    #[test]
    fn a_suppressed_address_gets_nothing() {
        let facts = Facts { suppressed: Some("hard_bounce".into()), ..facts() };
        let Admission::Refused(closed) = admit(&facts, &window(), at(DUE)) else { panic!("was admitted") };
        assert_eq!(closed.outcome, Outcome::Suppressed);
    }

    #[test]
    fn a_pause_defers_to_its_end_and_not_past_it() {
        let until = at("2026-03-05T00:00:00Z");
        let paused = Preferences { paused_until: Some(until), ..Preferences::default() };
        let facts = Facts { preferences: paused, ..facts() };
        assert!(matches!(admit(&facts, &window(), at(DUE)), Admission::Later { until: u, .. } if u == until));
        assert_eq!(admit(&facts, &window(), until), Admission::Admitted);
    }

    #[test]
    fn an_unknown_recipient_is_asked_for_with_backoff_up_to_an_hour_and_given_up_after_seven_days() {
        let facts = Facts { recipient: None, ..facts() };
        for (now, next) in [
            ("2026-03-02T08:00:00Z", "2026-03-02T08:01:00Z"),
            ("2026-03-02T08:08:00Z", "2026-03-02T08:16:00Z"),
            ("2026-03-04T08:00:00Z", "2026-03-04T09:00:00Z"),
        ] {
            assert!(matches!(admit(&facts, &window(), at(now)), Admission::Later { until, .. } if until == at(next)));
        }
        let Admission::Refused(closed) = admit(&facts, &window(), at("2026-03-09T08:00:00Z")) else {
            panic!("still waiting")
        };
        assert_eq!(closed.outcome, Outcome::Unknown);
    }
}
