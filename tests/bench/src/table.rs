//! Figures as a Markdown table, which is also readable on a terminal.

use crate::figure::{Baseline, Figure, Report, Target, median};

/// The command, the machine, the commit and the figures.
pub fn markdown(report: &Report) -> String {
    let Report { command, commit, machine, figures, .. } = report;
    let commit = commit.as_ref().map(|commit| format!("; commit {commit}")).unwrap_or_default();
    format!(
        "`{command}` on {} cores of {}, {} GiB, {}; {}{commit}.\n\n{}",
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.system,
        machine.temporal,
        table(figures)
    )
}

fn table(figures: &[Figure]) -> String {
    let heading = ["", "median", "rounds", "baseline", "ratio", "budget"].map(str::to_owned);
    let mut rows = vec![heading.to_vec()];
    rows.extend(figures.iter().map(row));
    let columns = rows[0].len();
    // An empty column is left out.
    let used: Vec<_> = (0..columns).filter(|at| *at < 2 || rows[1..].iter().any(|row| !row[*at].is_empty())).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default().max(3);
    let line = |row: &Vec<String>| {
        let cells: Vec<_> = used.iter().map(|at| format!("{:<width$}", row[*at], width = width(*at))).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule: Vec<_> = used.iter().map(|at| "-".repeat(width(*at))).collect();
    let body: String = rows[1..].iter().map(line).collect();
    format!("{}| {} |\n{body}", line(&rows[0]), rule.join(" | "))
}

fn row(figure: &Figure) -> Vec<String> {
    let Figure { what, unit, rounds, target, .. } = figure;
    let baseline = |Baseline { what, rounds }: &Baseline| format!("{} {what}", number(median(rounds)));
    let budget = target.map(|target| {
        let bound = match target {
            Target::AtLeast(least) => format!("at least {}", number(least)),
            Target::AtMost(most) => format!("at most {}", number(most)),
            Target::Times(times) => format!("at least {} times", number(times)),
            Target::Above(most) => {
                let above = figure.above().map(number).unwrap_or_default();
                format!("at most {} more, has {above}", number(most))
            }
        };
        format!("{bound}: {}", if figure.met() == Some(true) { "kept" } else { "NOT KEPT" })
    });
    let all: Vec<_> = rounds.iter().map(|value| number(*value)).collect();
    vec![
        what.clone(),
        format!("{} {unit}", number(figure.median())),
        if all.len() > 1 { all.join(", ") } else { String::new() },
        figure.baseline.as_ref().map(baseline).unwrap_or_default(),
        figure.ratio().map(number).unwrap_or_default(),
        budget.unwrap_or_default(),
    ]
}

/// A number with three digits and without trailing zeros.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let whole = text.contains('.').then(|| text.trim_end_matches('0').trim_end_matches('.').to_owned());
    thousands(&whole.unwrap_or(text))
}

/// Formats 12345 as 12,345.
fn thousands(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let first = whole.find(|c: char| c.is_ascii_digit()).unwrap_or(whole.len());
    let (sign, digits) = whole.split_at(first);
    let grouped: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    format!("{sign}{}{rest}", grouped.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_table_names_the_commit_where_it_is_known() {
        let machine = json!({"processor": "CPU", "cores": 2, "memory_gib": 24, "system": "linux", "temporal": "1.9"});
        let mut report = json!({"name": "a", "command": "a", "machine": machine, "figures": []});
        let line = |report: &Value| {
            let text = markdown(&serde_json::from_value(report.clone()).unwrap());
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(line(&report), "`a` on 2 cores of CPU, 24 GiB, linux; 1.9.");
        report["commit"] = json!("6c70db6 + changes");
        assert_eq!(line(&report), "`a` on 2 cores of CPU, 24 GiB, linux; 1.9; commit 6c70db6 + changes.");
    }

    #[test]
    fn numbers_have_three_digits_and_no_zeros_at_the_end() {
        let of = [0.004, 0.5, 2.0, 12.34, 99.99, 123.4, 1_367.2, 1_234_567.0, -1_234.0].map(number);
        assert_eq!(of, ["0.004", "0.5", "2", "12.3", "100", "123", "1,367", "1,234,567", "-1,234"]);
    }

    #[test]
    fn a_table_omits_empty_columns_and_marks_kept_budgets() {
        let mut fast = Figure::new("fast", "mails/s").target(Target::AtLeast(2.0));
        fast.push(3.0);
        let mut slow = Figure::new("slow", "mails/s").target(Target::AtLeast(2.0));
        slow.push(1.0);
        assert_eq!(
            table(&[fast, slow]),
            "|      | median    | budget               |\n\
             | ---- | --------- | -------------------- |\n\
             | fast | 3 mails/s | at least 2: kept     |\n\
             | slow | 1 mails/s | at least 2: NOT KEPT |\n"
        );
    }
}
