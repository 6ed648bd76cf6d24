//! Days and weeks in seconds, on the time-skipping server.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use jiff::{
    SignedDuration, Timestamp, ToSpan as _, Unit,
    civil::{Date, DateTime, Weekday, time},
    tz::{AmbiguousOffset, TimeZone},
};
use temporalio_client::WorkflowDescribeOptions;
use tidings_harness::{
    env::{key, settings},
    time_skipping::TimeSkipping,
};
use tidings_model::{
    records::{DigestRecord, Recipient},
    settings::{DigestCap, DigestCategories, DigestSettings, DisplayLimits, OverLimit, Settings, UnknownRecipients},
    window::{DigestOutcome, Window, WindowEnd},
};
use tidings_needs::needs;
use tidings_store::prelude::*;
use tidings_workflows::Digest;

fn hours_between(earlier: Timestamp, later: Timestamp) -> i64 {
    later.duration_since(earlier).as_hours()
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_one_day_opens_again_after_a_week_of_silence() -> Result<()> {
    let env = TimeSkipping::start(settings("after 1d", "after 1d")).await?;
    let key = key("activity", "ann");
    let mut sent = Vec::new();
    for event_id in ["monday", "a week later"] {
        env.emit(&key, event_id).await?;
        let summary = env.completed(&key).await?;
        let last = summary.last.context("no digest")?;
        assert_eq!(last.closed.outcome, DigestOutcome::Sent);
        sent.push(env.store.digest(last.digest_id).await?.context("not in the ledger")?);
        env.server.sleep(Duration::from_hours(7 * 24)).await?;
    }
    for digest in &sent {
        assert_eq!(digest.items, 1);
        assert_eq!(hours_between(digest.opened_at, digest.due_at), 24);
    }
    assert!(hours_between(sent[0].due_at, sent[1].opened_at) >= 7 * 24);
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn the_cadence_never_sends_nothing_and_records_why() -> Result<()> {
    let env = TimeSkipping::start(settings("never", "never")).await?;
    let key = key("activity", "ann");
    env.emit(&key, "unwanted").await?;
    env.completed(&key).await?;
    let digests = env.store.digests(&key, 10).await?;
    let closed = digests.into_iter().map(|digest| digest.closed.context("never closed"));
    let skipped = WindowEnd {
        outcome: DigestOutcome::Skipped,
        why: "never: the digest type has a cadence that sends nothing".to_owned(),
    };
    assert_eq!(closed.collect::<Result<Vec<_>>>()?, [skipped]);
    assert_eq!(env.relay.mails().len(), 0);
    Ok(())
}

/// Delays by category as in the drawings of a learning platform's proposal of 2014: comments may wait 2 units, shares 3. A unit is an hour
/// here. Answers with the time of each email, its number of events by category, and its lines.
async fn drawing(events: &[(f64, &str)]) -> Result<Vec<(f64, BTreeMap<String, u64>, Vec<String>)>> {
    let hours = |count: f64| SignedDuration::from_secs_f64(count * 3600.0);
    let mut settings = settings("instant", "instant");
    let activity = settings.digests.get_mut("activity").context("no such type")?;
    activity.delay = [("comment", 2), ("share", 3)].map(|(name, h)| (name.to_owned(), Duration::from_hours(h))).into();
    let env = TimeSkipping::start(settings).await?;
    let key = key("activity", "ann");
    let start = env.server.now().await?;
    for (n, (at, category)) in events.iter().enumerate() {
        env.server.sleep_until(start + hours(*at)).await?;
        env.emit_of(&key, &n.to_string(), category).await?;
    }
    env.server.sleep_until(start + hours(24.0)).await?;

    let mut digests = env.store.digests(&key, 10).await?;
    digests.reverse();
    let sent = env.relay.mails();
    assert_eq!(digests.len(), sent.len());
    let mut mails = Vec::new();
    for (DigestRecord { digest_id, key, opened_at, due_at, closed, .. }, mail) in digests.into_iter().zip(sent) {
        assert_eq!(closed.map(|closed| closed.outcome), Some(DigestOutcome::Sent));
        let shown = DisplayLimits { lines: 50, items: 1, categories: &DigestCategories::NONE };
        let contents = env.store.contents(&Window { key, digest_id, opened_at, due_at }, shown).await?;
        let at = (due_at.duration_since(start).as_secs_f64() / 360.0).round() / 10.0;
        let counts = contents.lines.into_iter().map(|line| (line.category, line.count)).collect();
        let bytes = mail.bytes();
        let parsed = mail_parser::MessageParser::new().parse(&bytes).context("no mail")?;
        let text = parsed.body_text(0).context("no text")?;
        mails.push((at, counts, text.lines().filter(|line| line.starts_with("* ")).map(str::to_owned).collect()));
    }
    Ok(mails)
}

/// What [`drawing`] answers for one email.
fn email(at: f64, counts: &[(&str, u64)], lines: &[&str]) -> (f64, BTreeMap<String, u64>, Vec<String>) {
    let counts = counts.iter().map(|(category, count)| ((*category).to_owned(), *count)).collect();
    (at, counts, lines.iter().map(|line| (*line).to_owned()).collect())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn delays_by_category_match_the_first_drawing() -> Result<()> {
    let (comment, share) = ("comment", "share");
    let events =
        [(2.0, comment), (2.2, share), (2.6, share), (3.0, share), (3.6, share), (4.04, comment), (5.0, comment)];
    let mails = [
        email(4.0, &[(share, 4), (comment, 1)], &["* 4 × share", "* comment"]),
        email(6.0, &[(comment, 2)], &["* 2 × comment"]),
    ];
    assert_eq!(drawing(&events).await?, mails);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn delays_by_category_match_the_second_drawing() -> Result<()> {
    let (comment, share) = ("comment", "share");
    let events = [(0.0, share), (1.8, comment), (3.04, share), (4.4, share)];
    let mails = [
        email(3.0, &[(share, 1), (comment, 1)], &["* comment", "* share"]),
        email(6.0, &[(share, 2)], &["* 2 × share"]),
    ];
    assert_eq!(drawing(&events).await?, mails);
    Ok(())
}

/// `send_first` and `throttle`: the first at once, the next not before the throttle is over, then the cadence.
#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn first_now_sends_at_once_and_the_throttle_delays_the_next() -> Result<()> {
    let mut settings = settings("after 10m", "instant");
    let activity = settings.digests.get_mut("activity").context("no such type")?;
    (activity.send_first, activity.throttle) = (Some(Duration::from_hours(6)), Some(Duration::from_hours(1)));
    let env = TimeSkipping::start(settings).await?;
    let key = key("activity", "ann");
    let start = env.server.now().await?;
    for minute in [0, 5, 70, 600] {
        env.server.sleep_until(start + minute.minutes()).await?;
        env.emit(&key, &minute.to_string()).await?;
    }
    env.server.sleep_until(start + 24.hours()).await?;
    let mut sent = Vec::new();
    for digest in env.store.digests(&key, 10).await? {
        sent.push(digest.closed_at.context("never closed")?.duration_since(start).as_mins());
    }
    sent.reverse();
    // 5 is due at 15 and throttled to 60; 70 is due at 80 and throttled to 120; 600 comes after a silence.
    assert_eq!(sent, [0, 60, 120, 600]);
    Ok(())
}

/// Every calendar cadence. An hour's slot is at :30 wherever offsets are whole hours.
const CALENDAR: [(&str, &str); 6] = [
    ("hourly", "hourly at :30"),
    ("daily", "daily 08:00"),
    ("weekdays", "weekdays 08:00"),
    ("weekly", "weekly sun 02:30"),
    ("monthly", "monthly 31 02:30"),
    ("cron", "cron 30 2,14 * * *"),
];

/// Digest types of these names, in Berlin's time.
fn berlin() -> Result<Settings> {
    let mut settings = settings("instant", "instant");
    let plain = settings.digests["activity"].clone();
    for (name, cadence) in CALENDAR {
        let zone = Some("Europe/Berlin".to_owned());
        settings.digests.insert(name.to_owned(), DigestSettings { cadence: cadence.parse()?, zone, ..plain.clone() });
    }
    Ok(settings)
}

/// The local times of a day's slots; the hours follow their events instead.
fn times(name: &str, day: Date) -> Vec<DateTime> {
    let weekend = matches!(day.weekday(), Weekday::Saturday | Weekday::Sunday);
    match name {
        "weekdays" if weekend => Vec::new(),
        "daily" | "weekdays" => vec![day.at(8, 0, 0, 0)],
        "weekly" if day.weekday() == Weekday::Sunday => vec![day.at(2, 30, 0, 0)],
        "monthly" if day == day.last_of_month() => vec![day.at(2, 30, 0, 0)],
        "cron" => vec![day.at(2, 30, 0, 0), day.at(14, 30, 0, 0)],
        _ => Vec::new(),
    }
}

/// The slots after the first event, and the first after the last one. The night of the change has no 02:30, or two.
fn slots(name: &str, change: Timestamp, events: &[Timestamp]) -> Result<Vec<Timestamp>> {
    let zone = TimeZone::get("Europe/Berlin")?;
    if name == "hourly" {
        return Ok(events.iter().map(|event| *event + 10.minutes()).collect());
    }
    let (first, last) = (events[0], events[events.len() - 1]);
    let days = zone.to_datetime(first).date().series(1.day()).take(70);
    let instant = |time| match zone.to_ambiguous_timestamp(time) {
        skipped if matches!(skipped.offset(), AmbiguousOffset::Gap { .. }) => Ok(change),
        shown => shown.earlier(),
    };
    let slots = days.flat_map(|day| times(name, day)).map(instant).collect::<Result<Vec<_>, _>>()?;
    let mut slots: Vec<_> = slots.into_iter().filter(|slot| *slot > first).collect();
    slots.truncate(slots.iter().filter(|slot| **slot < last).count() + 1);
    Ok(slots)
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn each_calendar_cadence_keeps_its_slots_over_a_dst_change() -> Result<()> {
    let env = TimeSkipping::start(berlin()?).await?;
    let (day, fortnight) = (24.hours(), (14 * 24).hours());
    let soon = env.server.now().await? + fortnight;
    let change = TimeZone::get("Europe/Berlin")?.following(soon).next().context("no more changes")?.timestamp();

    // An event for each key every six hours, and in the two days in the middle one every hour for that of the hours.
    let mut events: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    let begin = change - fortnight + 20.minutes();
    for hour in 0..28 * 24 {
        let at = begin + hour.hours();
        let near = change - day < at && at < change + day;
        let names = CALENDAR.map(|(name, _)| name).into_iter();
        let names: Vec<_> = names.filter(|name| if *name == "hourly" { near } else { hour % 6 == 0 }).collect();
        if !names.is_empty() {
            env.server.sleep_until(at).await?;
        }
        for name in names {
            env.emit(&key(name, "ann"), &format!("{name} {at}")).await?;
            events.entry(name).or_default().push(at);
        }
    }
    env.server.sleep_until(change + fortnight + (31 * 24).hours()).await?;

    for (name, cadence) in CALENDAR {
        let mut digests = env.store.digests(&key(name, "ann"), 200).await?;
        digests.sort_by_key(|digest| digest.due_at);
        let due: Vec<_> = digests.iter().map(|digest| digest.due_at).collect();
        assert_eq!(due, slots(name, change, &events[name])?, "{cadence}");
        for DigestRecord { due_at, closed, closed_at, .. } in digests {
            assert_eq!(closed.map(|closed| closed.outcome), Some(DigestOutcome::Sent), "{cadence} {due_at}");
            let late = closed_at.context("never closed")?.duration_since(due_at);
            assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{cadence} {due_at}: {late:#}");
        }
    }
    Ok(())
}

/// Every cadence that counts from events, with the minutes of a day's mails and how many events each tells of. Events come
/// twenty minutes past these hours.
const HOURS: [i64; 6] = [0, 1, 2, 3, 5, 12];
type Mails = &'static [(i64, u64)];
const WAITING: [(&str, &str, Mails); 3] = [
    ("instant", "instant", &[(20, 1), (80, 1), (140, 1), (200, 1), (320, 1), (740, 1)]),
    ("after", "after 90m", &[(110, 2), (230, 2), (410, 1), (830, 1)]),
    // Without `max` the first mail would wait until 290.
    ("sliding", "sliding 90m max 4h", &[(260, 4), (410, 1), (830, 1)]),
];

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn each_waiting_cadence_keeps_its_delays_over_a_dst_change() -> Result<()> {
    let mut settings = settings("instant", "instant");
    let plain = settings.digests["activity"].clone();
    for (name, cadence, _) in WAITING {
        let zone = Some("Europe/Berlin".to_owned());
        settings.digests.insert(name.to_owned(), DigestSettings { cadence: cadence.parse()?, zone, ..plain.clone() });
    }
    let env = TimeSkipping::start(settings).await?;
    let (day, fortnight) = (24.hours(), (14 * 24).hours());
    let soon = env.server.now().await? + fortnight;
    let change = TimeZone::get("Europe/Berlin")?.following(soon).next().context("no more changes")?.timestamp();
    let begin = change - fortnight;
    let midnights: Vec<_> = (0..28).map(|n| begin + (n * 24).hours()).collect();
    for midnight in &midnights {
        for hour in HOURS {
            env.server.sleep_until(*midnight + (60 * hour + 20).minutes()).await?;
            for (name, ..) in WAITING {
                env.emit(&key(name, "ann"), &format!("{midnight} {hour}")).await?;
            }
        }
    }
    env.server.sleep_until(change + fortnight + day).await?;

    for (name, cadence, mails) in WAITING {
        let mut digests = env.store.digests(&key(name, "ann"), 500).await?;
        digests.sort_by_key(|digest| digest.due_at);
        let expected = midnights.iter().flat_map(|day| mails.iter().map(|(at, events)| (*day + at.minutes(), *events)));
        let minute = |at: Timestamp| at.round(Unit::Minute);
        let due =
            digests.iter().map(|digest| Ok((minute(digest.due_at)?, digest.items))).collect::<Result<Vec<_>>>()?;
        assert_eq!(due, expected.collect::<Vec<_>>(), "{cadence}");
        for DigestRecord { due_at, closed, closed_at, .. } in digests {
            assert_eq!(closed.map(|closed| closed.outcome), Some(DigestOutcome::Sent), "{cadence} {due_at}");
            let late = closed_at.context("never closed")?.duration_since(due_at);
            assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{cadence} {due_at}: {late:#}");
        }
    }
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_is_spread_and_each_key_keeps_its_share() -> Result<()> {
    const KEYS: usize = 30;
    let spread = SignedDuration::from_mins(10);
    let mut settings = settings("daily 08:00", "instant");
    settings.digests.get_mut("activity").context("no such type")?.spread = Some(spread.try_into()?);
    let env = TimeSkipping::start(settings).await?;
    let keys: Vec<_> = (0..KEYS).map(|n| key("activity", &format!("u{n}"))).collect();
    let midnight = env.server.now().await?.to_zoned(TimeZone::UTC).tomorrow()?.start_of_day()?;
    for day in 0..2 {
        env.server.sleep_until(midnight.timestamp() + (24 * day).hours()).await?;
        for key in &keys {
            env.emit(key, &day.to_string()).await?;
        }
    }
    env.server.sleep_until(midnight.timestamp() + 48.hours()).await?;

    let mut shares = BTreeMap::new();
    for key in &keys {
        let digests = env.store.digests(key, 10).await?;
        let mut of_days = BTreeSet::new();
        for DigestRecord { due_at, closed, closed_at, .. } in &digests {
            assert_eq!(closed.as_ref().map(|closed| closed.outcome), Some(DigestOutcome::Sent), "{key}");
            let late = closed_at.context("never closed")?.duration_since(*due_at);
            assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{key}: {late:#} after its share");
            let slot = due_at.to_zoned(TimeZone::UTC).with().time(time(8, 0, 0, 0)).build()?.timestamp();
            of_days.insert(due_at.duration_since(slot));
        }
        let [share] = of_days.into_iter().collect::<Vec<_>>()[..] else { bail!("{key} has two shares: {digests:?}") };
        assert!(digests.len() == 2 && !share.is_negative() && share < spread, "{key}: {share:#}");
        *shares.entry(share.as_mins()).or_insert(0) += 1;
    }
    // Thirty keys in ten minutes: with an even hash, four empty minutes are one case in a hundred thousand.
    assert!(shares.len() >= 7 && shares.values().all(|keys| *keys <= KEYS / 3), "{shares:?}");
    assert_eq!(env.relay.mails().len(), 2 * KEYS);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cap_counts_all_digest_types_and_defers_what_exceeds_it() -> Result<()> {
    let mut settings = settings("instant", "instant");
    // Not a whole day, which would end at midnight.
    settings.cap = Some(DigestCap { most: 2, within: Duration::from_hours(23) });
    settings.unknown_recipients = UnknownRecipients::Wait;
    let env = TimeSkipping::start(settings).await?;
    let start = env.server.now().await?;
    for user in ["ann", "bo"] {
        let key = key("activity", user);
        env.store.put_recipients(&[Recipient::for_development(&key)], start).await?;
    }
    for (hour, digest_type, user) in [
        (0, "activity", "ann"),
        (1, "alerts", "ann"),
        (2, "activity", "ann"),
        (2, "activity", "bo"),
        (3, "alerts", "ann"),
    ] {
        env.server.sleep_until(start + hour.hours()).await?;
        env.emit(&key(digest_type, user), &hour.to_string()).await?;
    }
    env.server.sleep_until(start + 72.hours()).await?;
    let mut sent = Vec::new();
    for (digest_type, user) in [("activity", "ann"), ("alerts", "ann"), ("activity", "bo")] {
        for digest in env.store.digests(&key(digest_type, user), 10).await? {
            let closed_at = digest.closed_at.context("never closed")?;
            sent.push((closed_at.duration_since(start).as_hours(), user));
        }
    }
    sent.sort_unstable();
    assert_eq!(sent, [(0, "ann"), (1, "ann"), (2, "bo"), (23, "ann"), (24, "ann")]);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_cap_that_skips_ends_the_window_and_the_ledger_says_why() -> Result<()> {
    let mut settings = settings("after 1h", "instant");
    settings.cap = Some(DigestCap { most: 1, within: Duration::from_hours(23) });
    settings.on_cap = OverLimit::Skip;
    let env = TimeSkipping::start(settings).await?;
    let (first, skipped) = (key("activity", "ann"), key("alerts", "ann"));
    for (key, hours) in [(&first, 2), (&skipped, 25), (&skipped, 2)] {
        env.emit(key, &format!("{hours} hours before the next")).await?;
        env.server.sleep(Duration::from_hours(hours)).await?;
    }
    let digests = env.store.digests(&skipped, 10).await?;
    let closed =
        digests.iter().map(|digest| digest.closed.clone().context("never closed")).collect::<Result<Vec<_>>>()?;
    let [later, capped] = &closed[..] else { bail!("{digests:?}") };
    assert_eq!((later.outcome, capped.outcome, digests[1].items), (DigestOutcome::Sent, DigestOutcome::Throttled, 1));
    assert!(capped.why.starts_with("the recipient had 1 digest in 23h, as many as they get -> "), "{}", capped.why);
    assert_eq!(env.relay.mails().len(), 2);
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn the_status_knows_throttle_and_cap_before_the_window_is_due() -> Result<()> {
    let mut settings = settings("after 1h", "after 1h");
    settings.cap = Some(DigestCap { most: 1, within: Duration::from_hours(12) });
    settings.digests.get_mut("alerts").context("no such type")?.throttle = Some(Duration::from_hours(23));
    let env = TimeSkipping::start(settings).await?;
    for (key, words, hours) in [
        (key("activity", "ann"), "the recipient had 1 digest in 12h, as many as they get -> ", 12),
        (key("alerts", "bo"), "throttled to one in 23h, the last at ", 23),
    ] {
        env.emit(&key, "e1").await?;
        env.server.sleep(Duration::from_hours(2)).await?;
        env.emit(&key, "e2").await?;
        let status = env.planned(&key).await?;
        env.server.sleep(Duration::from_hours(48)).await?;

        let digests = env.store.digests(&key, 10).await?;
        let ends = digests.iter().map(|digest| digest.closed_at.context("never closed")).collect::<Result<Vec<_>>>()?;
        let [second, first] = ends[..] else { bail!("{digests:?}") };
        assert!(status.why.starts_with("after 1h -> ") && status.why.contains(words), "{}", status.why);
        let due_at = status.due_at.context("no time")?;
        assert_eq!(due_at.duration_since(first).round(Unit::Hour)?.as_hours(), hours, "{due_at}");
        let late = second.duration_since(due_at);
        assert!(!late.is_negative() && late < SignedDuration::from_mins(1), "{key}: shown {due_at}, sent {second}");
    }
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn repetitions_that_follow_each_other_share_a_run() -> Result<()> {
    let env = TimeSkipping::start(settings("after 1m", "instant")).await?;
    let key = key("activity", "ann");
    env.emit(&key, "e1").await?;
    env.completed(&key).await?;
    let mut runs = Vec::new();
    for seconds in [4, 4, 10, 0] {
        env.emit(&key, "e1").await?;
        let workflow = env.server.client.get_workflow_handle::<Digest>(key.workflow_id());
        runs.push(workflow.describe(WorkflowDescribeOptions::default()).await?.run_id().to_owned());
        env.server.sleep(Duration::from_secs(seconds)).await?;
    }
    assert_eq!([&runs[0], &runs[0]], [&runs[1], &runs[2]], "four seconds later the run was still there");
    assert_ne!(runs[2], runs[3], "after ten it was not");
    assert_eq!((env.completed(&key).await?.digests, env.relay.mails().len()), (0, 1));
    Ok(())
}

#[needs(test_server)]
#[tokio::test(flavor = "multi_thread")]
async fn a_run_stays_open_for_its_linger_time_only() -> Result<()> {
    let mut settings = settings("after 1m", "instant");
    settings.digests.get_mut("activity").context("no such type")?.keep_open = Some(Duration::from_mins(10));
    let env = TimeSkipping::start(settings).await?;
    let key = key("activity", "ann");
    let start = env.server.now().await?;
    let mut runs = Vec::new();
    for minute in [0, 10, 60] {
        env.server.sleep_until(start + minute.minutes()).await?;
        env.emit(&key, &minute.to_string()).await?;
        let workflow = env.server.client.get_workflow_handle::<Digest>(key.workflow_id());
        runs.push(workflow.describe(WorkflowDescribeOptions::default()).await?.run_id().to_owned());
    }
    assert_eq!(runs[0], runs[1], "nine minutes after its digest the run was still there");
    assert_ne!(runs[1], runs[2], "49 minutes after it was not");
    let summary = env.completed(&key).await?;
    assert_eq!((summary.digests, env.relay.mails().len()), (1, 3));
    Ok(())
}
