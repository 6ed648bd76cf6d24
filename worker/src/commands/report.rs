//! `tidings report`: delivery statistics by type, template, relay or day.

use jiff::Timestamp;
use serde_json::json;
use tidings_model::{
    report::{ByWhom, ReportCounts, ReportGrouping, ReportLine, ReportQuery, ReportRates, ReportedBounces},
    when,
};

use crate::{Config, storage};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tidings report                                the last 30 days, all together
  tidings report --by digest_type --since 7d
  tidings report --by day --tenant acme --since 2026-11-01T00:00:00Z --until 2026-11-30T00:00:00Z --json

A message counts on the UTC day of its creation, once for each kind of report. Messages that retention has deleted still
count. Delivered and bounced are shares of sent; complained, unsubscribed, opened and clicked are shares of delivered.
Opens and clicks are by people; +m are by machines, +? are not classified by the provider.";

/// The span, the tenant and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct ReportOptions {
    /// A line for each of these
    #[arg(long, value_name = "WHAT")]
    by: Option<ReportGrouping>,
    /// Only this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// From the UTC day of this time: an RFC 3339 timestamp, or an age such as `7d`
    #[arg(long, value_name = "TIME", value_parser = when::parse_past, default_value = "30d")]
    since: Timestamp,
    /// Until the end of the UTC day of this time [default: today]
    #[arg(long, value_name = "TIME", value_parser = when::parse_past)]
    until: Option<Timestamp>,
    /// Print JSON, one line each
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(options: ReportOptions, config: &Config) -> anyhow::Result<bool> {
    let ReportOptions { by, tenant, since, until, json: as_json } = options;
    let question = ReportQuery::new(tenant, since, until.unwrap_or_else(Timestamp::now), by);
    let store = storage::open(&config.database_url).await?;
    let counted = store.message_report(&question).await?;
    let lines: Vec<_> = counted.into_iter().map(|(bucket, counts)| ReportLine::new(by, bucket, counts)).collect();
    if !as_json && !lines.is_empty() {
        anstream::println!("{}", row("", &HEADER.map(str::to_owned)));
    }
    for line in &lines {
        anstream::println!("{}", if as_json { json!(line).to_string() } else { in_words(by, line) });
    }
    if lines.is_empty() {
        anstream::eprintln!("no messages were created on these days");
    }
    Ok(true)
}

const HEADER: [&str; 8] =
    ["sent", "delivered", "bounced", "never sent", "complained", "unsubscribed", "opened", "clicked"];

fn in_words(by: Option<ReportGrouping>, ReportLine { of, counts, rates }: &ReportLine) -> String {
    let name = match by {
        Some(ReportGrouping::DigestType) if of.is_empty() => "(single messages)",
        Some(ReportGrouping::Template) if of.is_empty() => "(ready parts)",
        Some(ReportGrouping::Relay) if of.is_empty() => "(no relay)",
        None => "all",
        Some(_) => of,
    };
    let ReportCounts { sent, delivered, bounced, never_sent, complained, unsubscribed, opened, clicked, .. } = *counts;
    let ReportedBounces { hard, soft, policy } = bounced;
    let people = [opened, clicked].map(|ByWhom { people, machines, unknown }| people + machines + unknown);
    let reports = delivered + hard + soft + policy + never_sent + complained + unsubscribed + people[0] + people[1];
    let ReportRates { delivered_of_sent, bounced_of_sent, complained_of_delivered, .. } = *rates;
    row(
        name,
        &[
            sent.to_string(),
            // A relay that sends no reports has no deliveries, which is not a rate of 0 %.
            known_by(delivered, share(delivered, delivered_of_sent)),
            known_by(reports, share(hard + soft + policy, bounced_of_sent)),
            known_by(reports, never_sent.to_string()),
            known_by(reports, share(complained, complained_of_delivered)),
            known_by(reports, share(unsubscribed, rates.unsubscribed_of_delivered)),
            known_by(reports, by_whom(opened, rates.opened_of_delivered)),
            known_by(reports, by_whom(clicked, rates.clicked_of_delivered)),
        ],
    )
}

fn row(name: &str, cells: &[String; 8]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| format!(" {cell:>17}")).collect();
    format!("{name:<24}{}", cells.concat()).trim_end().to_owned()
}

/// `-` until a first report came.
fn known_by(reports: u64, cell: String) -> String {
    if reports == 0 { "-".to_owned() } else { cell }
}

/// `12 3.4%`
fn share(count: u64, rate: Option<f64>) -> String {
    rate.map_or_else(|| count.to_string(), |rate| format!("{count} {:.1}%", 100.0 * rate))
}

/// `12 3.4% +5m +1?`
fn by_whom(ByWhom { people, machines, unknown }: ByWhom, rate: Option<f64>) -> String {
    let more = |count: u64, of: char| if count > 0 { format!(" +{count}{of}") } else { String::new() };
    format!("{}{}{}", share(people, rate), more(machines, 'm'), more(unknown, '?'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> ReportCounts {
        ReportCounts {
            sent: 200,
            delivered: 190,
            deferred: 1,
            bounced: ReportedBounces { hard: 4, soft: 1, policy: 1 },
            never_sent: 2,
            complained: 1,
            unsubscribed: 0,
            opened: ByWhom { people: 38, machines: 80, unknown: 1 },
            clicked: ByWhom::default(),
        }
    }

    #[test]
    fn a_line_has_counts_with_their_shares() {
        let none = ReportCounts { sent: 7, ..ReportCounts::default() };
        let bounced = ReportCounts { bounced: ReportedBounces { hard: 1, soft: 0, policy: 0 }, ..none };
        let by = Some(ReportGrouping::DigestType);
        for (counts, expected) in [
            (counts(), "(single messages) 200 190 95.0% 6 3.0% 2 1 0.5% 0 0.0% 38 20.0% +80m +1? 0 0.0%"),
            (none, "(single messages) 7 - - - - - - -"),
            (bounced, "(single messages) 7 - 1 14.3% 0 0 0 0 0"),
        ] {
            let shown = in_words(by, &ReportLine::new(by, String::new(), counts));
            assert_eq!(shown.split_whitespace().collect::<Vec<_>>().join(" "), expected);
        }
    }
}
