//! Maps stored circuit breakers to today's configuration: a relay may have been renamed since, and its sender
//! may have changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    breaker::{BreakerCause, CircuitBreaker, VersionedBreaker, breaker_name, split_name},
    settings::Settings,
};

/// With the default, which has no relays, every breaker counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelaysToday(BTreeMap<String, RelayToday>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RelayToday {
    /// Former names, not including other relays of the same account.
    was: BTreeSet<String>,
    /// Senders of the streams using this relay, from
    /// [`StreamSettings::envelope_sender`](crate::settings::Stream::envelope_sender). Empty if unknown.
    senders: BTreeSet<String>,
}

impl RelaysToday {
    #[must_use]
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a String>) -> Self {
        Self(names.into_iter().map(|name| (name.clone(), RelayToday::default())).collect())
    }

    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        // If this process lacks a relay's URL, the settings only contain its names.
        let mut relays = Self::from_names(settings.relays.keys().chain(settings.relays_were.keys()));
        for (name, relay) in &mut relays.0 {
            relay.was = settings.relays_were.get(name).into_iter().flatten().cloned().collect();
            relay.senders = settings.senders_by(name).collect();
        }
        relays
    }

    #[must_use]
    pub fn name_of<'a>(&'a self, name: &'a str) -> &'a str {
        if self.0.contains_key(name) {
            return name;
        }
        self.0.iter().find(|(_, relay)| relay.was.contains(name)).map_or(name, |(today, _)| today)
    }

    /// Returns configured relays' breakers under their current names. A relay without a stored breaker
    /// inherits one of a former name, so one opened by an operator stays open. If a breaker opened because of
    /// a rejected sender which no stream uses any more, it is closed.
    #[must_use]
    pub fn breakers(&self, kept: BTreeMap<String, VersionedBreaker>) -> BTreeMap<String, VersionedBreaker> {
        if self.0.is_empty() {
            return kept;
        }
        let (own, former): (BTreeMap<_, _>, BTreeMap<_, _>) =
            kept.into_iter().partition(|(breaker, _)| self.0.contains_key(split_name(breaker).0));
        let mut today: BTreeMap<_, _> =
            own.into_iter().map(|(breaker, kept)| (breaker.clone(), self.close_obsolete(&breaker, kept))).collect();
        for (breaker, kept) in former {
            let (relay, tenant) = split_name(&breaker);
            let now = self.name_of(relay);
            if now == relay {
                continue;
            }
            let breaker = breaker_name(now, tenant);
            let adopted = self.close_obsolete(&breaker, VersionedBreaker { revision: 0, ..kept });
            let known = today.entry(breaker).or_insert_with(|| adopted.clone());
            if known.revision == 0 && known.breaker.open.is_none() {
                *known = adopted;
            }
        }
        today
    }

    fn close_obsolete(&self, breaker: &str, kept: VersionedBreaker) -> VersionedBreaker {
        let relay = self.0.get(split_name(breaker).0);
        if relay.is_some_and(|relay| relay.is_over(&kept.breaker)) {
            return VersionedBreaker { breaker: CircuitBreaker::closed(), ..kept };
        }
        kept
    }
}

impl RelayToday {
    /// Returns `true` if the breaker opened because of a sender no stream of the relay uses now.
    fn is_over(&self, breaker: &CircuitBreaker) -> bool {
        let may_mean_sender = |cause| matches!(cause, BreakerCause::Policy | BreakerCause::Configuration);
        breaker.open.as_ref().is_some_and(|open| may_mean_sender(open.cause))
            && !self.senders.is_empty()
            && breaker.refusals.sender.as_ref().is_some_and(|sender| !self.senders.contains(sender))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::settings::{DeliveryStreams, RelaySettings, ReturnPath, SenderIdentity, StreamSettings};

    fn settings(relays: &[(&str, &[&str])], sender: &str) -> Settings {
        let address: crate::EmailAddress = sender.parse().unwrap();
        let sender = SenderIdentity { name: String::new(), address, reply_to: None, domain: "b.example".into() };
        let names: Vec<_> = relays.iter().map(|(name, _)| *name).collect();
        let stream = StreamSettings::new(&names, sender);
        let at = || RelaySettings::new("smtp://127.0.0.1:1025".parse().unwrap());
        let named = |text: &&str| (*text).to_owned();
        Settings {
            relays: relays.iter().map(|(name, _)| ((*name).to_owned(), at())).collect(),
            relays_were: relays
                .iter()
                .map(|(name, was)| ((*name).to_owned(), was.iter().map(named).collect()))
                .collect(),
            ..Settings::new(DeliveryStreams { bulk: stream.clone(), transactional: stream })
        }
    }

    fn kept(revision: u64, breaker: CircuitBreaker) -> VersionedBreaker {
        VersionedBreaker { revision, breaker }
    }

    fn left_alone() -> CircuitBreaker {
        CircuitBreaker::closed().open_by_operator("they are moving", Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_breaker_of_a_relay_that_no_file_has_does_not_count() {
        let rows = BTreeMap::from([
            ("first".to_owned(), kept(3, left_alone())),
            ("second".to_owned(), kept(1, CircuitBreaker::closed())),
        ]);
        let today = RelaysToday::from_settings(&settings(&[("second", &[])], "a@b.example")).breakers(rows.clone());
        assert_eq!(today.keys().collect::<Vec<_>>(), ["second"]);
        assert_eq!(RelaysToday::default().breakers(rows.clone()), rows, "nobody knows the relays");
    }

    #[test]
    fn a_relay_that_was_renamed_is_still_left_alone_until_it_has_a_breaker_of_its_own() {
        let today = RelaysToday::from_settings(&settings(&[("second", &["first", "zero"])], "a@b.example"));
        let mut rows = BTreeMap::from([
            ("first".to_owned(), kept(3, CircuitBreaker::closed())),
            ("first/acme".to_owned(), kept(2, left_alone())),
            ("zero".to_owned(), kept(9, left_alone())),
        ]);
        let found = today.breakers(rows.clone());
        assert_eq!(
            found,
            BTreeMap::from([
                ("second".to_owned(), kept(0, left_alone())),
                ("second/acme".to_owned(), kept(0, left_alone())),
            ])
        );
        rows.insert("second".to_owned(), kept(1, CircuitBreaker::closed()));
        assert_eq!(today.breakers(rows)["second"], kept(1, CircuitBreaker::closed()));
    }

    #[test]
    fn a_relay_that_another_one_reports_for_is_not_that_one() {
        let mut settings = settings(&[("second", &[])], "a@b.example");
        settings.reports_for.insert("second".to_owned(), vec!["first".to_owned()]);
        let today = RelaysToday::from_settings(&settings);
        assert_eq!((today.name_of("first"), settings.relay_today("first")), ("first", "second"));
        assert_eq!(today.breakers(BTreeMap::from([("first".to_owned(), kept(3, left_alone()))])), BTreeMap::new());
    }

    #[test]
    fn a_breaker_that_opened_for_a_sender_of_whom_no_stream_is_any_more_is_closed() {
        let open = |cause| {
            let opened = left_alone();
            let open = opened.open.map(|open| crate::breaker::OpenState { cause, ..open });
            CircuitBreaker { open, ..opened }.for_sender("digest@old.example")
        };
        for (cause, sender, is_open) in [
            (BreakerCause::Policy, "digest@old.example", true),
            (BreakerCause::Policy, "digest@new.example", false),
            (BreakerCause::Configuration, "digest@new.example", false),
            (BreakerCause::Outage, "digest@new.example", true),
            (BreakerCause::Operator, "digest@new.example", true),
        ] {
            let rows = BTreeMap::from([("own".to_owned(), kept(4, open(cause)))]);
            let today = RelaysToday::from_settings(&settings(&[("own", &[])], sender)).breakers(rows);
            assert_eq!((today["own"].revision, today["own"].breaker.open.is_some()), (4, is_open), "{cause} {sender}");
        }
    }

    #[test]
    fn a_message_is_of_the_sender_that_its_stream_has_today() {
        let Settings { streams, .. } = settings(&[], "digest@b.example");
        let plain = streams.bulk;
        let path = ReturnPath { local: "bounce".into(), domain: "mail.b.example".into() };
        let returning = StreamSettings { return_path: Some(path), ..plain.clone() };
        for (stream, envelope, is_of) in [
            (&plain, "digest@b.example", true),
            (&plain, "Digest@B.example", true),
            (&plain, "digest@old.example", false),
            (&plain, "bounce+abc@mail.b.example", false),
            (&returning, "bounce+abc@mail.b.example", true),
            (&returning, "bounce+abc@mail.old.example", false),
            (&returning, "bounce@mail.b.example", false),
            (&returning, "digest@b.example", true),
        ] {
            assert_eq!(stream.sends_as(envelope), is_of, "{envelope}");
        }
        assert_eq!(
            (plain.envelope_sender(), returning.envelope_sender()),
            ("digest@b.example".to_owned(), "bounce@mail.b.example".to_owned(),)
        );
    }
}
