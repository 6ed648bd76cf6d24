//! A message that waits, for its relay or for the end of `undo`, goes out as it would be made then (rule 60).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tidings_activities::{
    CancellableResult,
    digest::{claim, send},
};
use tidings_harness::{
    env::{Env, activities, event, key, order, settings, sqlite},
    relay::{Act, At, Fault, Mail, Relay},
    retention::worker_profile,
    steps::{claim_of, recorded_event, send_of},
    team_service::{Says, TeamService},
    wait::{eventually, wait_for_emails},
};
use tidings_model::{
    Key, RelaysToday, Retract,
    command::CommandContext,
    names,
    process::{ProcessRecord, digest_section},
    records::{AuditEntry, Preferences, Recipient},
    settings::{Settings, UnknownRecipients},
    step::{ClaimAnswer, ClaimInput, SendAnswer, SendDigestInput},
    window::{DigestOutcome, WaitReason, Window, WindowEnd},
};
use tidings_needs::needs;
use tidings_proto::v1;
use tidings_services::{StepError, StepServices, relays::BreakerCommand};
use tidings_store::{SqliteStore, prelude::*};
use tidings_workflows::{Digest, DigestStage};

const MINUTE: Duration = Duration::from_mins(1);
const BOTH: [&str; 2] = ["e1", "e2"];

fn ann(address: &str, locale: &str) -> Recipient {
    let (tenant, user) = ("acme".to_owned(), "ann".to_owned());
    let (address, name, locale) = (address.to_owned(), "Ann".to_owned(), locale.to_owned());
    Recipient { tenant, user, address, name, zone: "Europe/Berlin".to_owned(), locale }
}

fn entry(now: Timestamp) -> AuditEntry {
    CommandContext { by: "carol".to_owned(), why: "ticket".to_owned() }.audit_entry("preferences", now)
}

/// A claimed digest of two events for ann, whose relay is behind `deps`.
struct Waits {
    _folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    relay: Relay,
    deps: StepServices,
    window: Window,
    made: Timestamp,
}

impl Waits {
    async fn start(settings: Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (store, relay) = (sqlite(folder.path()).await?, Relay::start().await?);
        let settings = Settings { unknown_recipients: UnknownRecipients::Wait, ..settings };
        let deps = activities(store.clone(), &relay.url(), settings)?;
        let made = Timestamp::now();
        store.put_recipients(&[ann("ann@example.com", "en")], made).await?;
        let key = key("activity", "ann");
        let window = Window { digest_id: key.digest_id("run", 1), key, opened_at: made, due_at: made };
        let mut events: Vec<_> = BOTH.map(|id| recorded_event(id, made)).into();
        "share".clone_into(&mut events[1].category);
        let input = ClaimInput { flushed: true, ..claim_of(&window, events) };
        let claimed = claim::run(&deps, &input).await?;
        ensure!(matches!(claimed, ClaimAnswer::Claimed { items: 2, .. }), "{claimed:?}");
        Ok(Self { _folder: folder, store, relay, deps, window, made })
    }

    fn key(&self) -> &Key {
        &self.window.key
    }

    /// An attempt this long after the claim, by a workflow that does not say what it waited for.
    async fn attempt(&self, after: SignedDuration) -> Result<SendAnswer> {
        self.attempt_after(after, None).await
    }

    async fn attempt_after(&self, later: SignedDuration, after: Option<WaitReason>) -> Result<SendAnswer> {
        let input = SendDigestInput { after, ..send_of(&self.window, self.made + later) };
        match send::run(&self.deps, &input, std::future::pending()).await? {
            CancellableResult::Done(sent) => Ok(sent),
            CancellableResult::Cancelled => anyhow::bail!("nobody cancelled the attempt"),
        }
    }

    async fn ends(&self, after: SignedDuration) -> Result<WindowEnd> {
        match self.attempt(after).await? {
            SendAnswer::Closed { closed, .. } => Ok(closed),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// The reasons for which the message was made again.
    async fn remakes(&self) -> Result<Vec<String>> {
        let digest = self.store.digest(self.window.digest_id).await?.context("no digest")?;
        let entries = self.store.audit_of_digest(&digest).await?.into_iter();
        Ok(entries.filter(|entry| entry.action == "remake").map(|entry| entry.why).collect())
    }

    /// Another file.
    fn configure(&mut self, change: impl FnOnce(&mut Settings) -> Result<()>) -> Result<()> {
        let mut settings = self.deps.settings.clone();
        change(&mut settings)?;
        self.deps = activities(self.store.clone(), &self.relay.url(), settings)?;
        Ok(())
    }

    async fn open_breakers(&self) -> Result<Vec<String>> {
        let kept = RelaysToday::from_settings(&self.deps.settings).breakers(self.store.breakers().await?);
        Ok(kept.into_iter().filter(|(_, kept)| kept.breaker.open.is_some()).map(|(name, _)| name).collect())
    }

    async fn retract(&self, event_id: &str) -> Result<()> {
        Ok(self.store.put_retracts(self.key(), &[Retract::Event(event_id.to_owned())], Timestamp::now()).await?)
    }

    async fn turn_off(&self, category: &str) -> Result<()> {
        let off = Preferences { off: [category.to_owned()].into(), ..Preferences::default() };
        self.store.put_preferences(self.key(), &off, None, &entry(Timestamp::now())).await?;
        Ok(())
    }

    async fn is(&self, address: &str, locale: &str) -> Result<()> {
        self.store.put_recipients(&[ann(address, locale)], Timestamp::now()).await?;
        Ok(())
    }
}

fn text(mail: &Mail) -> Result<String> {
    Ok(String::from_utf8(mail.bytes())?)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_attempt_is_made_while_the_recipient_pauses() -> Result<()> {
    let waits = Waits::start(settings("after 1s", "after 1s")).await?;
    // The store keeps milliseconds.
    let until = Timestamp::from_second(waits.made.as_second() + 72 * 3600)?;
    let choose = async |paused_until| {
        let chosen = Preferences { paused_until, ..Preferences::default() };
        waits.store.put_preferences(waits.key(), &chosen, None, &entry(Timestamp::now())).await
    };
    choose(Some(until)).await?;
    for wait in [Some(WaitReason::Retry), Some(WaitReason::Flushed), Some(WaitReason::Urgent), None] {
        let SendAnswer::Waiting { until: at, why, moment, .. } =
            waits.attempt_after(SignedDuration::ZERO, wait).await?
        else {
            anyhow::bail!("an attempt after {wait:?}");
        };
        ensure!(why.starts_with("paused until "), "{why}");
        // A workflow that waits for no moment is not woken by the end of the pause, and asks again.
        let asks_again = wait != Some(WaitReason::Retry);
        ensure!(moment != asks_again && (at < until) == asks_again && at > waits.made, "{wait:?}: {at}");
    }
    ensure!(waits.relay.mails().is_empty());
    choose(None).await?;
    ensure!(waits.ends(SignedDuration::ZERO).await?.outcome == DigestOutcome::Sent);
    Ok(())
}

/// A change of what a message was made from.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Retract,
    Category,
    Address,
    Language,
    Old,
}

#[tokio::test(flavor = "multi_thread")]
async fn until_a_dot_a_message_follows_each_change_under_its_message_id() -> Result<()> {
    for (change, why) in [
        (Change::Nothing, None),
        (Change::Retract, Some("1 event retracted")),
        (Change::Category, Some("1 event of a category that is off")),
        (Change::Address, Some("another address")),
        (Change::Language, Some("the recipient, their choices or the configuration changed")),
        (Change::Old, Some("made more than an hour ago")),
    ] {
        let waits = Waits::start(settings("after 1s", "after 1s")).await?;
        waits.relay.fault(Fault::new(At::Rcpt, Act::Reply("451 4.3.0 later".to_owned())).times(1));
        ensure!(matches!(waits.attempt(SignedDuration::ZERO).await?, SendAnswer::Deferred { .. }), "{change:?}");
        let mut after = SignedDuration::from_secs(50);
        match change {
            Change::Nothing => {}
            Change::Retract => waits.retract("e1").await?,
            Change::Category => waits.turn_off("share").await?,
            Change::Address => waits.is("ann@example.org", "en").await?,
            Change::Language => waits.is("ann@example.com", "de").await?,
            Change::Old => after = SignedDuration::from_mins(90),
        }
        assert_eq!(waits.ends(after).await?.outcome, DigestOutcome::Sent, "{change:?}");
        assert_eq!(waits.remakes().await?, why.into_iter().collect::<Vec<_>>(), "{change:?}");
        let mails = waits.relay.mails();
        let [mail] = &mails[..] else { anyhow::bail!("{change:?}: not one mail") };
        let (text, id) = (text(mail)?, format!("<{}@tidings.example>", waits.window.digest_id));
        assert_eq!(mail.header("Message-ID")?, id, "{change:?}");
        let to = if matches!(change, Change::Address) { "ann@example.org" } else { "ann@example.com" };
        assert_eq!(mail.to, [to], "{change:?}");
        let left = BOTH.map(|id| text.contains(&format!("Event {id}")));
        let expected = [!matches!(change, Change::Retract), !matches!(change, Change::Category)];
        assert_eq!(left, expected, "{change:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_with_nothing_left_to_send_ends_as_skipped() -> Result<()> {
    for (nth, says) in [
        (0, "every event was retracted, opted out of or seen elsewhere before the message went out"),
        (1, "the recipient opted out"),
    ] {
        let waits = Waits::start(settings("after 1s", "after 1s")).await?;
        match nth {
            0 => {
                waits.retract("e1").await?;
                waits.turn_off("share").await?;
            }
            _ => waits.store.put_consent(waits.key(), false, &entry(Timestamp::now())).await?,
        }
        let closed = waits.ends(SignedDuration::ZERO).await?;
        assert_eq!((closed.outcome, closed.why.as_str()), (DigestOutcome::Skipped, says));
        assert!(waits.relay.mails().is_empty());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_while_the_message_waited_is_not_in_it() -> Result<()> {
    let service = TeamService::start(Says::Json(json!({"seen": []}))).await?;
    let mut settings = settings("after 1s", "after 1s");
    settings.digests.get_mut("activity").context("no digest type")?.seen = Some(service.settings()?);
    let waits = Waits::start(settings).await?;
    service.says(Says::Json(json!({"seen": ["e1"]})));
    assert_eq!(waits.ends(SignedDuration::from_mins(5)).await?.outcome, DigestOutcome::Sent);
    assert_eq!((service.asked().len(), waits.remakes().await?), (2, vec!["1 event seen elsewhere".to_owned()]));
    let text = text(&waits.relay.mail(0).context("no mail")?)?;
    assert!(!text.contains("Event e1") && text.contains("Event e2"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_waits_goes_where_the_teams_own_directory_says_now() -> Result<()> {
    let moved = Says::Json(json!({"email": "ann@example.org", "name": "Ann", "zone": "Europe/Berlin", "locale": "en"}));
    for (says, to) in [(moved, "ann@example.org"), (Says::Closes, "ann@example.com")] {
        let service = TeamService::start(says).await?;
        let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
        waits.deps.directory = Some(service.directory()?);
        assert_eq!(waits.ends(SignedDuration::ZERO).await?.outcome, DigestOutcome::Sent);
        assert_eq!(waits.relay.mail(0).context("no mail")?.to, [to]);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_waits_for_a_missing_recipient_as_a_window_does() -> Result<()> {
    let not_found = || Says::Raw("HTTP/1.1 404 x\r\ncontent-length: 0\r\n\r\n".to_owned());
    let ann = Says::Json(json!({"email": "ann@example.com", "name": "Ann", "zone": "Europe/Berlin", "locale": "en"}));
    let (held, minute, week) =
        (SignedDuration::from_hours(240), SignedDuration::from_mins(2), SignedDuration::from_hours(168));
    for (says, after, outcome) in [(ann, minute, DigestOutcome::Sent), (not_found(), week, DigestOutcome::Unknown)] {
        let service = TeamService::start(not_found()).await?;
        let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
        waits.deps.directory = Some(service.directory()?);
        // However long it waited for something else.
        let sent = waits.attempt(held).await?;
        let why = "the team's directory does not know the recipient";
        ensure!(matches!(&sent, SendAnswer::Waiting { why: is, .. } if is == why), "{sent:?}");
        service.says(says);
        assert_eq!(waits.ends(held + after).await?.outcome, outcome);
        assert_eq!(waits.relay.mails().len(), usize::from(outcome == DigestOutcome::Sent));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_table_a_message_goes_out_unless_events_left_it() -> Result<()> {
    for leaves in [false, true] {
        let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
        if leaves {
            // A call that took the event out, and made no message.
            let off = ["share".to_owned()].into();
            waits.store.withdraw_events(&waits.window, &off, &BTreeSet::new(), Timestamp::now()).await?;
        }
        waits.deps.settings.digests.clear();
        match waits.attempt(SignedDuration::ZERO).await? {
            SendAnswer::Closed { closed, .. } => {
                ensure!(!leaves && closed.outcome == DigestOutcome::Sent, "{closed:?}");
            }
            sent => ensure!(leaves && matches!(sent, SendAnswer::Waiting { .. }), "{sent:?}"),
        }
        assert_eq!(waits.relay.mails().len(), usize::from(!leaves));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_type_that_only_another_worker_knows_is_left_to_that_one() -> Result<()> {
    for (queue, leaves) in [("elsewhere", false), (names::TASK_QUEUE, true)] {
        let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
        waits.deps.settings.digests.clear();
        let mut other = ProcessRecord {
            id: uuid::Uuid::nil(),
            seen_at: waits.store.database_clock().await?,
            profile: worker_profile(),
        };
        other.profile.sections.insert(digest_section("activity"), "aa".to_owned());
        queue.clone_into(&mut other.profile.task_queue);
        waits.store.put_process(&other).await?;
        let sent = send::run(&waits.deps, &send_of(&waits.window, waits.made), std::future::pending()).await;
        assert_eq!(matches!(sent, Err(StepError::OtherWorker(_))), leaves, "{queue}");
        assert_eq!(waits.relay.mails().len(), usize::from(!leaves), "{queue}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_dot_a_message_follows_no_change() -> Result<()> {
    let waits = Waits::start(settings("after 1s", "after 1s")).await?;
    waits.relay.fault(Fault::new(At::Dot, Act::KeepAndReply("451 4.3.0 later".to_owned())).times(1));
    ensure!(matches!(waits.attempt(SignedDuration::ZERO).await?, SendAnswer::Deferred { .. }));
    waits.retract("e1").await?;
    waits.is("ann@example.org", "de").await?;
    assert_eq!(waits.ends(SignedDuration::from_hours(8)).await?.outcome, DigestOutcome::Sent);
    let mails = waits.relay.mails();
    let [first, second] = &mails[..] else { anyhow::bail!("not two mails") };
    ensure!(first.bytes() == second.bytes() && first.to == second.to, "the attempts sent different messages");
    assert!(waits.remakes().await?.is_empty());
    Ok(())
}

const NOT_OURS: &str = "550 5.7.1 <digest@tidings.example>: Sender address rejected: not owned by user acme";

fn new_sender(settings: &mut Settings) -> Result<()> {
    for stream in [&mut settings.streams.bulk, &mut settings.streams.transactional] {
        stream.sender.address = "digest@new.example".parse()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_that_opened_for_a_former_sender_does_not_hold_todays_back() -> Result<()> {
    let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
    waits.relay.fault(Fault::new(At::Mail, Act::Reply(NOT_OURS.to_owned())).times(1));
    ensure!(matches!(waits.attempt(SignedDuration::ZERO).await?, SendAnswer::Waiting { .. }));
    assert_eq!(waits.open_breakers().await?, ["default"]);
    waits.configure(new_sender)?;
    assert_eq!(waits.open_breakers().await?, [""; 0]);
    assert_eq!(waits.ends(SignedDuration::from_secs(5)).await?.outcome, DigestOutcome::Sent);
    assert_eq!(waits.relay.mail(0).context("no mail")?.from, "digest@new.example");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_a_former_sender_costs_its_message_an_attempt_and_opens_no_breaker() -> Result<()> {
    let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
    waits.relay.fault(Fault::new(At::Dot, Act::Reply("451 4.3.0 later".to_owned())).times(1));
    ensure!(matches!(waits.attempt(SignedDuration::ZERO).await?, SendAnswer::Deferred { .. }));
    waits.configure(new_sender)?;
    for at in [At::Mail, At::Rcpt] {
        waits.relay.fault(Fault::new(at, Act::Reply(NOT_OURS.to_owned())).times(1));
        let sent = waits.attempt(SignedDuration::from_mins(1)).await?;
        ensure!(matches!(sent, SendAnswer::Deferred { .. }), "{at:?}: {sent:?}");
        assert_eq!(waits.open_breakers().await?, [""; 0]);
    }
    assert_eq!(waits.ends(SignedDuration::from_mins(6)).await?.outcome, DigestOutcome::Sent);
    assert_eq!(waits.relay.mail(0).context("no mail")?.from, "digest@tidings.example", "after a dot its bytes stand");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_with_another_name_is_still_left_alone_and_one_that_is_gone_is_not() -> Result<()> {
    for was in [true, false] {
        let mut waits = Waits::start(settings("after 1s", "after 1s")).await?;
        BreakerCommand::Open.carry_out(&*waits.store, "default", "carol", "they are moving", Timestamp::now()).await?;
        ensure!(matches!(waits.attempt(SignedDuration::ZERO).await?, SendAnswer::Waiting { .. }));
        waits.configure(|settings| {
            let relay = settings.relays.remove("default").context("no relay")?;
            settings.relays.insert("second".to_owned(), relay);
            settings.streams.bulk.relays = vec!["second".to_owned()];
            settings.relays_were = was.then(|| ("second".to_owned(), vec!["default".to_owned()])).into_iter().collect();
            Ok(())
        })?;
        assert_eq!(waits.open_breakers().await?, if was { vec!["second"] } else { vec![] });
        let sent = waits.attempt(SignedDuration::from_mins(5)).await?;
        ensure!(matches!(sent, SendAnswer::Waiting { .. }) == was, "{was}: {sent:?}");
    }
    Ok(())
}

#[needs(temporal)]
#[tokio::test(flavor = "multi_thread")]
async fn a_retract_during_undo_takes_the_event_out_of_the_message() -> Result<()> {
    let mut settings = settings("after 2s", "after 2s");
    settings.digests.get_mut("activity").context("no digest type")?.undo = Some(Duration::from_mins(10));
    let env = Env::start(settings).await?;
    let key = key("activity", "ann");
    try_join_all(BOTH.map(|id| env.events.emit(event(&key, id)))).await?;
    env.reaches(&key, DigestStage::Undoable).await?;
    let Key { tenant, digest_type: digest, user } = key.clone();
    let retract = v1::Retract { tenant, digest, user, event_id: "e1".to_owned(), ..v1::Retract::default() };
    env.events.retract(retract).await?;
    eventually("the ledger has the retract", MINUTE, async || {
        Ok((env.count("SELECT COUNT(*) FROM retracts").await? == 1).then_some(()))
    })
    .await?;
    env.update(&key, Digest::flush, order()).await?;
    wait_for_emails(&env.relay, 1, MINUTE).await?;
    assert_eq!(env.relay.mail(0).context("no mail")?.header("X-Tidings-Events")?, "1");
    env.completed(&key).await?;
    let remakes = "SELECT COUNT(*) FROM audit WHERE action = 'remake' AND actor = 'tidings'";
    assert_eq!(env.count(remakes).await?, 1);
    Ok(())
}
