//! Statistics as text, the most urgent first.

use jiff::{SignedDuration, Timestamp, fmt::friendly::SpanPrinter};
use tidings_operations::stats::{OpenBreaker, Stats, SubscriptionBacklog};
use tidings_services::visibility::TaskQueueBacklog;

use crate::{commands::runs, phrases::format_count};

/// `all` also shows idle task queues.
pub(super) fn in_words(stats: &Stats, since: SignedDuration, all: bool) -> String {
    let mut lines = vec![verdict(stats)];
    lines.extend(overdue_line(stats));
    if stats.troubled_run_count > 0 {
        lines.push(runs::runs_summary(stats.troubled_run_count));
        lines.extend(stats.troubled.iter().map(|of| format!("  {:<14} {}", of.trouble.name(), of.runs)));
    }
    lines.extend(process_lines(stats));
    lines.extend(stats.retention.trouble.as_ref().map(|trouble| format!("retention: {trouble}")));
    lines.extend(unknown_zones(stats));
    lines.extend(open_lines(stats));
    lines.push(format!("in the last {}:", format_span(since)));
    lines.extend(span_lines(stats));
    if !stats.ledger.suppressed.is_empty() {
        lines.push("suppressed addresses:".to_owned());
    }
    let suppressed = stats.ledger.suppressed.iter();
    lines.extend(suppressed.map(|of| format!("  {:<14} {}", of.reason.name(), of.addresses)));
    let queues: Vec<_> = stats.task_queues.iter().filter(|queue| all || !is_idle(queue)).collect();
    if !queues.is_empty() {
        lines.push("task queues:".to_owned());
    }
    lines.extend(queues.into_iter().map(|queue| {
        let (name, kind, pollers) = (&queue.name, queue.kind.name(), format_count(queue.pollers, "poller"));
        let backlog = match (queue.backlog, queue.backlog_seconds) {
            (Some(backlog), Some(age)) => {
                let age = SignedDuration::try_from_secs_f64(age).map(format_span).unwrap_or_default();
                format!("{backlog} waiting, the oldest for {age}")
            }
            _ => "waiting: unknown, as Temporal before 1.28 does not report it".to_owned(),
        };
        format!("  {name:<24} {kind:<8} {backlog}; {pollers}")
    }));
    if stats.inbox.events > 0 {
        let (events, age) =
            (format_count(stats.inbox.events, "event"), format_span(seconds(stats.inbox.oldest_seconds(stats.at))));
        lines.push(format!("inbox: {events} on the way to Temporal, the oldest for {age}"));
    }
    lines.extend(stats.webhook_events.iter().filter_map(|of| subscription_line(of, stats.at)));
    let open_breakers = stats.breakers.iter();
    lines.extend(open_breakers.map(|OpenBreaker { relay, tenant, cause, why, .. }| {
        let of = tenant.as_ref().map(|tenant| format!(" and tenant {tenant}")).unwrap_or_default();
        format!("circuit breaker open for relay {relay}{of}: {cause}: {why}")
    }));
    lines.push(zone_data(stats));
    lines.join("\n")
}

/// What needs attention, the most urgent first, and where to begin.
pub(crate) fn attention(stats: &Stats) -> Vec<(String, &'static str)> {
    let blind =
        stats.task_queues.iter().filter(|queue| queue.pollers == 0 && queue.backlog.is_none_or(|tasks| tasks > 0));
    let stuck = stats.webhook_events.iter().filter(|of| of.gone_at.is_some() || of.dead_letters > 0);
    let unpolled = blind.map(|queue| {
        let what = format!("no worker polls {} ({})", queue.name, queue.kind.name());
        (what, "start `tidings worker` with this task queue")
    });
    let counts = [
        (stats.overdue_digest_count, "overdue digest", "see `tidings digest list --overdue`"),
        (stats.troubled_run_count, "run in trouble", "`tidings runs list` has the command for each"),
        (stats.breakers.len() as u64, "open circuit breaker", "see `tidings relays list`"),
        (stuck.count() as u64, "subscription with undelivered events", "see `tidings subscriptions list`"),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    let counts = counts.map(|(count, what, remedy)| (format_items(count, what), remedy));
    let differ = stats.differences.iter().any(|difference| !difference.aspect.is_expected());
    let words = [
        (differ, "workers and gateways differ", "see `tidings stats`, and give all the same file, keys and clock"),
        (stats.retention.trouble.is_some(), "old data is not deleted", "see `tidings stats` and docs/retention.md"),
        (!stats.unknown_zones.is_empty(), "unknown time zones", "see `tidings stats`, and correct the recipients"),
    ];
    let words = words.into_iter().filter(|(is_so, ..)| *is_so).map(|(_, what, remedy)| (what.to_owned(), remedy));
    counts.chain(unpolled).chain(words).collect()
}

/// The first line: all is well, or what needs attention.
fn verdict(stats: &Stats) -> String {
    let found: Vec<_> = attention(stats).into_iter().map(|(what, _)| what).collect();
    if found.is_empty() {
        format!("{GREEN}all is well{GREEN:#}")
    } else {
        format!("{RED}needs attention:{RED:#} {}", found.join(", "))
    }
}

/// Like [`format_count`], with the plural in the first word or two: `2 runs in trouble`.
fn format_items(count: u64, what: &str) -> String {
    let (noun, rest) =
        [" in ", " with "].into_iter().find_map(|word| what.find(word)).map_or((what, ""), |at| what.split_at(at));
    format_count(count, noun) + rest
}

fn is_idle(queue: &TaskQueueBacklog) -> bool {
    queue.backlog == Some(0) && queue.pollers > 0
}

fn process_lines(stats: &Stats) -> Vec<String> {
    let Some(first) = stats.differences.first() else { return Vec::new() };
    let effect = if first.aspect.is_expected() { "" } else { ", so retention deletes nothing until the workers agree" };
    let lines = stats.differences.iter().map(|difference| format!("  {difference}"));
    [format!("workers and gateways differ{effect}:")].into_iter().chain(lines).collect()
}

fn unknown_zones(stats: &Stats) -> Vec<String> {
    let rows: u64 = stats.unknown_zones.iter().map(|of| of.rows).sum();
    if rows == 0 {
        return Vec::new();
    }
    let mut lines =
        vec![format!("{} with an unknown time zone, so another one applies:", format_count(rows, "recipient"))];
    lines.extend(stats.unknown_zones.iter().map(|of| format!("  {:<14} {}", of.zone, of.rows)));
    lines
}

fn zone_data(stats: &Stats) -> String {
    let (here, newest) = (&stats.zone_data, stats.newest_zone_release.as_str());
    let newest = if newest == here.release || newest.is_empty() {
        String::new()
    } else {
        format!("; the newest that a worker had is {newest}")
    };
    format!("zone data here: {here}{newest}")
}

/// Returns `None` if the subscription needs no attention.
fn subscription_line(of: &SubscriptionBacklog, now: Timestamp) -> Option<String> {
    let SubscriptionBacklog { subscription, waiting, oldest, dead_letters, gone_at } = of;
    let oldest =
        oldest.map(|at| format!(", the oldest for {}", format_span(now.duration_since(at)))).unwrap_or_default();
    let dead = format_count(*dead_letters, "dead letter");
    let gone = if gone_at.is_some() { "; its receiver answered 410" } else { "" };
    let line = format!("webhook events to {subscription}: {waiting} waiting{oldest}, {dead}{gone}");
    (*waiting > 0 || *dead_letters > 0 || gone_at.is_some()).then_some(line)
}

/// A window that waits for a worker has an age, and is not a digest yet.
fn overdue_line(stats: &Stats) -> Option<String> {
    let late = format_span(seconds(stats.oldest_overdue_seconds));
    match (stats.undelivered_digest_count, stats.overdue_digest_count) {
        (0, _) if stats.oldest_overdue_seconds == 0 => None,
        (0, _) => Some(format!("a window is overdue by {late}")),
        (undelivered, overdue) => Some(format!(
            "{overdue} overdue of {}, the oldest by {late}",
            format_count(undelivered, "undelivered digest")
        )),
    }
}

fn open_lines(stats: &Stats) -> Vec<String> {
    let part = if stats.open_is_partial { "; the first of them by type:" } else { ":" };
    let mut lines = vec![format!("{}{part}", format_count(stats.open_digest_count, "open key"))];
    lines.extend(stats.open.iter().map(|of| format!("  {}/{}  {}", of.tenant, of.digest_type, of.digests)));
    lines
}

fn span_lines(stats: &Stats) -> Vec<String> {
    let ledger = &stats.ledger;
    let mut lines: Vec<_> = (ledger.ended.iter())
        .map(|of| format!("  {}/{}  {} {}", of.tenant, of.digest_type, of.digests, of.outcome.name()))
        .collect();
    lines.push(format!(
        "  {} in these digests, {}, {} of webhooks",
        format_count(stats.event_count, "event"),
        format_count(ledger.dead_letters, "dead letter"),
        ledger.webhook_dead_letters
    ));
    if ledger.refused_contents > 0 {
        let events = format_count(ledger.refused_contents, "event");
        lines.push(format!(
            "  {events} with other content under a known id; give each firing of an alert an id of its own"
        ));
    }
    lines.extend(ledger.reported.iter().map(|of| {
        let provider = stats.providers.get(&of.relay).copied().unwrap_or("unknown");
        let (bounces, complaints) = (format_count(of.bounces, "bounce"), format_count(of.complaints, "complaint"));
        format!("  relay {} ({provider})  {bounces}, {complaints}", of.relay)
    }));
    lines
}

pub(super) fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(seconds.try_into().unwrap_or(i64::MAX))
}

/// To the second, e.g. `1h 10m`.
pub(super) fn format_span(span: SignedDuration) -> String {
    SpanPrinter::new().duration_to_string(&SignedDuration::from_secs(span.as_secs()))
}

const GREEN: anstyle::Style = anstyle::AnsiColor::Green.on_default().bold();
const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default().bold();

#[cfg(test)]
pub(super) mod tests {
    use tidings_model::{
        ZoneData, ZoneSource,
        inbox::InboxDepth,
        process::{ProcessAspect, ProcessDifference},
        records::SuppressionReason,
        statistics::{EndedDigests, LedgerStatistics, ReportedByRelay, SuppressedAddresses, UndeliveredDigests},
        troubled_run::{RunTrouble, TroubledRun},
        window::DigestOutcome,
    };
    use tidings_operations::stats::{OpenDigests, RetentionStatus, TroubleCount, UnknownZone};
    use tidings_services::visibility::TaskKind;

    use super::*;

    pub fn sample() -> Stats {
        let at = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let (tenant, digest_type) = ("acme".to_owned(), "activity".to_owned());
        let ended = |outcome, digests, events| EndedDigests {
            tenant: tenant.clone(),
            digest_type: digest_type.clone(),
            outcome,
            digests,
            events,
        };
        Stats {
            at: at(4_200),
            since: at(4_200 - 86_400),
            open_digest_count: 812,
            open: vec![OpenDigests { tenant: tenant.clone(), digest_type: digest_type.clone(), digests: 812 }],
            open_is_partial: false,
            undelivered_digest_count: 3,
            overdue_digest_count: 2,
            oldest_overdue_seconds: 4_200,
            event_count: 1_201,
            ledger: LedgerStatistics {
                undelivered: vec![UndeliveredDigests {
                    tenant: tenant.clone(),
                    digest_type: digest_type.clone(),
                    digests: 3,
                    attempted: 1,
                    overdue: 2,
                    oldest_due_at: at(0),
                }],
                ended: vec![ended(DigestOutcome::Failed, 1, 1), ended(DigestOutcome::Sent, 400, 1_200)],
                dead_letters: 1,
                refused_contents: 2,
                webhook_dead_letters: 2,
                reported: vec![ReportedByRelay { relay: "ses".into(), bounces: 2, complaints: 1 }],
                suppressed: vec![SuppressedAddresses { reason: SuppressionReason::HardBounce, addresses: 7 }],
            },
            providers: [("ses".to_owned(), "ses")].into(),
            task_queues: vec![TaskQueueBacklog {
                name: "tidings".into(),
                kind: TaskKind::Workflow,
                backlog: Some(5),
                backlog_seconds: Some(61.5),
                pollers: 0,
            }],
            breakers: vec![OpenBreaker {
                relay: "ses".into(),
                tenant: None,
                cause: "outage",
                why: "connection refused".into(),
                open_since: at(1),
            }],
            inbox: InboxDepth { events: 30, bytes: 9_000, oldest: Some(at(4_100)) },
            webhook_events: vec![
                SubscriptionBacklog {
                    subscription: "crm".into(),
                    waiting: 4,
                    oldest: Some(at(600)),
                    dead_letters: 1,
                    gone_at: Some(at(900)),
                },
                SubscriptionBacklog {
                    subscription: "erp".into(),
                    waiting: 0,
                    oldest: None,
                    dead_letters: 0,
                    gone_at: None,
                },
            ],
            troubled_run_count: 1,
            oldest_troubled_run_seconds: 4_150,
            troubled: vec![TroubleCount { trouble: RunTrouble::Terminated, runs: 1 }],
            troubled_runs: vec![TroubledRun {
                workflow_id: "digest/acme/activity/ann".into(),
                run_id: "r1".into(),
                trouble: RunTrouble::Terminated,
                since: at(50),
                by: Some("bo@desk".into()),
                why: None,
                remedy: "tidings recover acme/activity/ann --run r1 --why REASON".into(),
            }],
            unknown_zones: vec![UnknownZone { zone: "localtime".into(), rows: 3 }],
            zone_data: ZoneData {
                release: "2026f".into(),
                source: ZoneSource::Program,
                program: "2026f".into(),
                machine: Some("2025b".into()),
                ..tidings_model::zone_data().clone()
            },
            newest_zone_release: "2027a".into(),
            differences: [
                (ProcessAspect::Configuration, "[retention] (ab in worker a:1; cd in worker b:2)"),
                (ProcessAspect::Version, "0.1.0 in worker a:1; 0.2.0 in worker b:2"),
            ]
            .map(|(aspect, who)| ProcessDifference { aspect, who: who.into() })
            .into(),
            retention: RetentionStatus {
                last_ended_at: Some(at(0)),
                trouble: Some("schedule tidings-upkeep is paused: old data will not be deleted".into()),
            },
        }
    }

    #[test]
    fn the_words_name_the_most_urgent_first() {
        let words = "\
needs attention: 2 overdue digests, 1 run in trouble, 1 open circuit breaker, 1 subscription with undelivered events, \
no worker polls tidings (workflow), workers and gateways differ, old data is not deleted, \
unknown time zones
2 overdue of 3 undelivered digests, the oldest by 1h 10m
1 run in trouble; `tidings runs list` has the commands to run:
  terminated     1
workers and gateways differ, so retention deletes nothing until the workers agree:
  other settings: [retention] (ab in worker a:1; cd in worker b:2)
  another version: 0.1.0 in worker a:1; 0.2.0 in worker b:2
retention: schedule tidings-upkeep is paused: old data will not be deleted
3 recipients with an unknown time zone, so another one applies:
  localtime      3
812 open keys:
  acme/activity  812
in the last 24h:
  acme/activity  1 failed
  acme/activity  400 sent
  1201 events in these digests, 1 dead letter, 2 of webhooks
  2 events with other content under a known id; give each firing of an alert an id of its own
  relay ses (ses)  2 bounces, 1 complaint
suppressed addresses:
  hard_bounce    7
task queues:
  tidings                  workflow 5 waiting, the oldest for 1m 1s; 0 pollers
inbox: 30 events on the way to Temporal, the oldest for 1m 40s
webhook events to crm: 4 waiting, the oldest for 1h, 1 dead letter; its receiver answered 410
circuit breaker open for relay ses: outage: connection refused
zone data here: 2026f of the program; the newest that a worker had is 2027a";
        assert_eq!(plain_words(&sample(), true), words);
    }

    fn plain_words(stats: &Stats, all: bool) -> String {
        anstream::adapter::strip_str(&in_words(stats, SignedDuration::from_hours(24), all)).to_string()
    }

    #[test]
    fn all_is_well_without_idle_queues_and_empty_lists() {
        let mut stats = Stats {
            undelivered_digest_count: 0,
            overdue_digest_count: 0,
            oldest_overdue_seconds: 0,
            troubled_run_count: 0,
            troubled_runs: vec![],
            troubled: vec![],
            breakers: vec![],
            webhook_events: vec![],
            differences: vec![],
            unknown_zones: vec![],
            retention: RetentionStatus { last_ended_at: None, trouble: None },
            ..sample()
        };
        stats.ledger.suppressed.clear();
        stats.task_queues[0] = TaskQueueBacklog { backlog: Some(0), pollers: 2, ..stats.task_queues[0].clone() };
        let words = plain_words(&stats, false);
        assert!(words.starts_with("all is well\n812 open keys:"), "{words}");
        assert!(!words.contains("suppressed") && !words.contains("task queues"), "{words}");
        assert!(plain_words(&stats, true).contains("tidings                  workflow 0 waiting"));
    }

    #[test]
    fn a_backlog_that_the_server_does_not_report_is_unknown() {
        let mut stats = sample();
        (stats.task_queues[0].backlog, stats.task_queues[0].backlog_seconds) = (None, None);
        let words = plain_words(&stats, false);
        assert!(
            words.contains("workflow waiting: unknown, as Temporal before 1.28 does not report it; 0 pollers"),
            "{words}"
        );
        let json = serde_json::to_value(stats).unwrap();
        assert_eq!(json["task_queues"][0]["backlog"], serde_json::Value::Null);
        assert_eq!(json["task_queues"][0]["backlog_seconds"], serde_json::Value::Null);
    }

    #[test]
    fn the_names_in_json_stay() {
        let expected = serde_json::json!({
            "at": "2027-01-15T09:10:00Z", "since": "2027-01-14T09:10:00Z",
            "openDigestCount": 812, "open": [{"tenant": "acme", "digest_type": "activity", "digests": 812}],
            "open_is_partial": false,
            "undelivered_digest_count": 3, "overdue_digest_count": 2, "oldest_overdue_seconds": 4200, "event_count": 1201,
            "undelivered": [{"tenant": "acme", "digest_type": "activity", "digests": 3, "attempted": 1, "overdue": 2,
                             "oldest_due_at": "2027-01-15T08:00:00Z"}],
            "ended": [{"tenant": "acme", "digest_type": "activity", "outcome": "failed", "digests": 1, "events": 1},
                      {"tenant": "acme", "digest_type": "activity", "outcome": "sent", "digests": 400, "events": 1200}],
            "dead_letters": 1, "refused_contents": 2, "webhook_dead_letters": 2, "reported": [{"relay": "ses", "bounces": 2, "complaints": 1}],
            "suppressed": [{"reason": "hard_bounce", "addresses": 7}], "providers": {"ses": "ses"},
            "task_queues": [{"name": "tidings", "kind": "workflow", "backlog": 5, "backlog_seconds": 61.5, "pollers": 0}],
            "breakers": [{"relay": "ses", "cause": "outage", "why": "connection refused",
                          "open_since": "2027-01-15T08:00:01Z"}],
            "inbox": {"events": 30, "bytes": 9000, "oldest": "2027-01-15T09:08:20Z"},
            "webhook_events": [{"subscription": "crm", "waiting": 4, "oldest": "2027-01-15T08:10:00Z", "dead_letters": 1,
                         "gone_at": "2027-01-15T08:15:00Z"},
                        {"subscription": "erp", "waiting": 0, "oldest": null, "dead_letters": 0, "gone_at": null}],
            "troubled_run_count": 1, "oldest_troubled_run_seconds": 4150, "troubled": [{"trouble": "terminated", "runs": 1}],
            "troubled_runs": [{"workflow_id": "digest/acme/activity/ann", "run_id": "r1", "trouble": "terminated",
                              "since": "2027-01-15T08:00:50Z", "by": "bo@desk",
                              "remedy": "tidings recover acme/activity/ann --run r1 --why REASON"}],
            "unknown_zones": [{"zone": "localtime", "rows": 3}],
            "zone_data": {"release": "2026f", "source": "program", "program": "2026f", "machine": "2025b"},
            "newest_zone_release": "2027a",
            "differences": [{"aspect": "configuration", "who": "[retention] (ab in worker a:1; cd in worker b:2)"},
                            {"aspect": "version", "who": "0.1.0 in worker a:1; 0.2.0 in worker b:2"}],
            "retention": {"last_ended_at": "2027-01-15T08:00:00Z",
                       "trouble": "schedule tidings-upkeep is paused: old data will not be deleted"},
        });
        assert_eq!(serde_json::to_value(sample()).unwrap(), expected);
    }
}
