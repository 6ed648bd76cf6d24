//! A relay that is away for hours of simulated time while events arrive. Emails wait, at most one digest for each key,
//! and in the end every event is in exactly one email.

use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use tidings_harness::{
    env::{key, settings},
    relay::{Act, At, Fault, events_by_message},
    time_skipping::TimeSkipping,
    wait::eventually,
};
use tidings_model::Key;
use tidings_needs::needs;
use tidings_store::prelude::*;

const USERS: usize = 6;
/// Between two events of a key.
const PACE: Duration = Duration::from_mins(15);
const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// Digests that are claimed and have no end, of the key that has most of them.
const UNDELIVERED: &str = "SELECT COALESCE(MAX(n), 0) FROM (SELECT COUNT(*) AS n FROM digests
    WHERE claimed_at IS NOT NULL AND closed_at IS NULL GROUP BY tenant, digest_type, user_id)";

/// Events for keys of two cadences, from an hour before the outage to an hour after it.
struct Outage {
    env: TimeSkipping,
    keys: Vec<Key>,
    begins: Timestamp,
    ends: Timestamp,
    events: u64,
    /// Mails that were out when it began.
    before: usize,
}

impl Outage {
    async fn of(hours: i64, faults: &[Fault]) -> Result<Self> {
        let env = TimeSkipping::start(settings("after 10m", "instant")).await?;
        let users = (0..USERS).map(|n| format!("u{n}"));
        let keys = users.flat_map(|user| [key("activity", &user), key("alerts", &user)]).collect();
        let begins = env.server.now().await? + HOUR;
        let ends = begins + hours.hours();
        let mut outage = Self { env, keys, begins, ends, events: 0, before: 0 };
        outage.pass(faults).await?;
        Ok(outage)
    }

    async fn pass(&mut self, faults: &[Fault]) -> Result<()> {
        let (mut now, mut away) = (self.begins - HOUR, false);
        while now < self.ends + HOUR {
            self.env.server.sleep_until(now).await?;
            if !away && now >= self.begins && now < self.ends {
                away = true;
                self.before = self.env.relay.mails().len();
                for fault in faults {
                    self.env.relay.fault(fault.clone());
                }
            } else if away && now >= self.ends {
                away = false;
                let meanwhile = self.env.relay.mails().len() - self.before;
                assert!(meanwhile <= self.keys.len(), "the relay was not away: it took {meanwhile} mails");
                self.env.relay.heal();
            }
            for key in &self.keys {
                self.env.emit(key, &format!("at {now}")).await?;
                self.events += 1;
            }
            let undelivered = self.env.count(UNDELIVERED).await?;
            assert!(undelivered <= 1, "{undelivered} undelivered digests of one key at {now}");
            now += PACE;
        }
        // Longer than the longest wait between two attempts.
        self.env.server.sleep_until(now + 12.hours()).await?;
        let open = async || {
            Ok((self.env.count("SELECT COUNT(*) FROM digests WHERE closed_at IS NULL").await? == 0).then_some(()))
        };
        eventually("every digest has an end", Duration::from_mins(1), open).await
    }

    /// Every event is in exactly one mail, and nothing came twice.
    async fn check(&self) -> Result<()> {
        let mails = self.env.relay.mails();
        let told = events_by_message(&mails)?;
        println!(
            "{} events, {} mails, {} of them after the outage",
            self.events,
            mails.len(),
            mails.len() - self.before
        );
        assert_eq!(told.len(), mails.len(), "a digest was mailed twice");
        assert_eq!(told.values().sum::<u64>(), self.events);
        let elsewhere = "SELECT COUNT(*) FROM events JOIN digests USING (digest_id) WHERE outcome <> 'sent'";
        assert_eq!(self.env.count(elsewhere).await?, 0, "an event is under a digest that was not sent");
        assert_eq!(self.env.count("SELECT COUNT(*) FROM suppressions").await?, 0);
        Ok(())
    }

    /// No burst: what waited, what collected meanwhile, and what each cadence makes of the last hour.
    fn mails_afterwards(&self) -> usize {
        self.env.relay.mails().len() - self.before
    }
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_relay_delays_emails_and_spends_no_attempt() -> Result<()> {
    let goodbye = |at| Fault::new(at, Act::ReplyAndClose("421 4.3.2 shutting down".into()));
    let outage = Outage::of(6, &[goodbye(At::Greeting), goodbye(At::Mail)]).await?;
    outage.check().await?;
    let rounds_after = usize::try_from(HOUR.as_secs())? / usize::try_from(PACE.as_secs())?;
    let most = outage.keys.len() * (2 + rounds_after);
    assert!(outage.mails_afterwards() <= most, "a burst of {}", outage.mails_afterwards());
    let failed = "SELECT COUNT(*) FROM digests WHERE outcome = 'failed'";
    assert_eq!(outage.env.count(failed).await?, 0, "an outage burns no attempt");
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_defers_past_the_last_attempt_loses_no_event() -> Result<()> {
    let outage = Outage::of(13, &[Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into()))]).await?;
    outage.check().await?;
    let failed = "SELECT COUNT(*) FROM digests WHERE outcome = 'failed'";
    assert!(outage.env.count(failed).await? >= i64::try_from(outage.keys.len())?, "the last attempt came too late");
    Ok(())
}

/// Rule 25: retried after 1m, 5m, 30m, 2h, 8h; six attempts.
#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn six_attempts_are_made_at_exact_delays() -> Result<()> {
    let env = TimeSkipping::start(settings("instant", "instant")).await?;
    env.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".into())));
    let key = key("activity", "ann");
    env.emit(&key, "e1").await?;
    env.completed(&key).await?;
    let digests = env.store.digests(&key, 10).await?;
    assert_eq!(digests.len(), 3, "the event returns twice");
    for digest in digests {
        let attempts = env.attempts(digest.digest_id).await?;
        let waits: Vec<_> = attempts.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs() / 60).collect();
        assert_eq!(waits, [1, 5, 30, 120, 480]);
    }
    Ok(())
}
