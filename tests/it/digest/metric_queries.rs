//! The queries of docs/prometheus and docs/grafana, and what they read of a worker's metrics.

use std::{fs, path::Path};

use anyhow::Result;
use serde_json::Value;

/// Each query of the alert rules and of the dashboard.
pub(super) fn all() -> Result<Vec<String>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let rules = fs::read_to_string(docs.join("prometheus/alerts.yml"))?;
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).map(str::to_owned);
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(docs.join("grafana/tidings.json"))?)?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let shown = targets.filter_map(|target| target["expr"].as_str()).map(str::to_owned);
    Ok(alerts.chain(shown).collect())
}

/// Metrics and labels of a query that these metrics lack, as `metric` or `metric{label}`.
pub(super) fn missing(query: &str, exported: &str) -> Vec<String> {
    let names: Vec<&str> = words(query).filter(|word| word.starts_with("tidings_")).collect();
    let absent = names.iter().filter(|name| series(exported, name).next().is_none()).map(|&name| name.to_owned());
    let has = |name: &str, label: &str| series(exported, name).any(|line| line.contains(&format!("{label}=\"")));
    let unlabelled = grouped(query).filter(|label| !names.iter().any(|name| has(name, label)));
    let unmatched = matched(query).filter(|(name, label)| !has(name, label));
    absent
        .chain(unlabelled.map(|label| format!("{}{{{label}}}", names.join("|"))))
        .chain(unmatched.map(|(name, label)| format!("{name}{{{label}}}")))
        .collect()
}

fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Lines of a metric.
fn series<'a>(exported: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let name = name.to_owned();
    exported
        .lines()
        .filter(move |line| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' ')))
}

/// Labels in `by (...)`.
fn grouped(query: &str) -> impl Iterator<Item = &str> {
    query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(words)
}

/// Metrics with a label in `metric{label="..."}`. Each metric of our queries has one label in braces at most.
fn matched(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = query.match_indices('{').map(|(at, _)| at);
    ends.filter_map(|at| Some((words(&query[..at]).last()?, words(&query[at..]).next()?)))
}

#[test]
fn a_metric_or_a_label_that_nobody_exports_is_missing() {
    let exported = "# TYPE tidings_a counter\ntidings_a_total{kind=\"x\",relay=\"y\"} 1\ntidings_b 2\n";
    for (query, lacks) in [
        ("sum by (relay) (tidings_a_total{kind=\"x\"}) > 1 and tidings_b", vec![]),
        ("tidings_a > 1", vec!["tidings_a"]),
        ("sum by (tenant) (tidings_a_total)", vec!["tidings_a_total{tenant}"]),
        ("tidings_b{kind=\"x\"}", vec!["tidings_b{kind}"]),
    ] {
        assert_eq!(missing(query, exported), lacks, "{query}");
    }
}
