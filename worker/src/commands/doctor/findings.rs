//! Findings of `tidings doctor`, and the conclusion from all of them. Pure.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::phrases::format_count;

/// Who may be at fault, in the order in which an operator should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckArea {
    Configuration,
    Database,
    Temporal,
    Relays,
    /// What waits, and why.
    Work,
    Machine,
}

impl CheckArea {
    const fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Database => "database",
            Self::Temporal => "Temporal",
            Self::Relays => "relays",
            Self::Work => "work",
            Self::Machine => "machine",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    /// Could not be checked, because an earlier check failed or the server does not report it.
    Skipped,
    /// Works, but should be corrected.
    Warning,
    Failed,
}

impl Verdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }

    fn style(self) -> anstyle::Style {
        let color = match self {
            Self::Ok => anstyle::AnsiColor::Green,
            Self::Skipped => anstyle::AnsiColor::BrightBlack,
            Self::Warning => anstyle::AnsiColor::Yellow,
            Self::Failed => anstyle::AnsiColor::Red,
        };
        color.on_default()
    }
}

/// The result of one check. Never has an address of a recipient or a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub area: CheckArea,
    /// What was checked, e.g. `search attributes` or a relay's name.
    pub check: String,
    pub verdict: Verdict,
    pub found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(area: CheckArea, check: &str, found: impl Into<String>) -> Self {
        Self { area, check: check.to_owned(), verdict: Verdict::Ok, found: found.into(), remedy: None }
    }

    pub(super) fn skipped(area: CheckArea, check: &str, found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped, ..Self::ok(area, check, found) }
    }

    pub(super) fn warning(area: CheckArea, check: &str, found: impl Into<String>, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned()).filter(|remedy| !remedy.is_empty());
        Self { verdict: Verdict::Warning, remedy, ..Self::ok(area, check, found) }
    }

    pub(super) fn failed(area: CheckArea, check: &str, found: impl Into<String>, remedy: &str) -> Self {
        Self { verdict: Verdict::Failed, ..Self::warning(area, check, found, remedy) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { area, check, verdict, found, remedy } = self;
        let (style, verdict) = (verdict.style(), verdict.name());
        write!(f, "{style}{verdict:<8}{style:#} {:<14} {check}: {found}", area.name())?;
        match remedy {
            Some(remedy) => write!(f, "\n{:<23} -> {remedy}", ""),
            None => Ok(()),
        }
    }
}

/// Says whose fault it is, and which areas are fine. An area is as bad as its worst finding.
pub(super) fn conclusion(findings: &[Finding]) -> String {
    let mut worst: BTreeMap<CheckArea, Verdict> = BTreeMap::new();
    for finding in findings {
        let verdict = worst.entry(finding.area).or_insert(finding.verdict);
        *verdict = finding.verdict.max(*verdict);
    }
    let areas = |wanted: &[Verdict]| {
        let names = worst.iter().filter(|(_, verdict)| wanted.contains(verdict)).map(|(area, _)| area.name());
        names.collect::<Vec<_>>().join(", ")
    };
    let warnings = findings.iter().filter(|finding| finding.verdict == Verdict::Warning).count();
    let noted = match warnings {
        0 => String::new(),
        count => format!("; {}", format_count(count as u64, "warning")),
    };
    let (failed, fine) = (areas(&[Verdict::Failed]), areas(&[Verdict::Ok, Verdict::Warning]));
    match (failed.is_empty(), fine.is_empty()) {
        (true, _) => format!("No check failed{noted}."),
        (false, true) => format!("Failed: {failed}{noted}."),
        (false, false) => format!("Failed: {failed}. Working: {fine}{noted}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conclusion_names_who_fails_and_who_works() {
        use CheckArea::{Configuration, Database, Relays, Temporal, Work};
        let ok = |area| Finding::ok(area, "connection", "responds");
        for (findings, expected) in [
            (vec![ok(Configuration), ok(Database)], "No check failed."),
            (
                vec![ok(Database), Finding::warning(Configuration, "keys", "can be read by everybody", "chmod")],
                "No check failed; 1 warning.",
            ),
            (vec![Finding::failed(Configuration, "file", "is missing", "write it")], "Failed: configuration."),
            (
                vec![
                    ok(Database),
                    ok(Relays),
                    Finding::failed(Relays, "ses", "connect: timed out", "ask them"),
                    ok(Temporal),
                    Finding::skipped(Work, "backlog", "needs the database"),
                ],
                "Failed: relays. Working: database, Temporal.",
            ),
        ] {
            assert_eq!(conclusion(&findings), expected);
        }
    }

    #[test]
    fn a_finding_is_a_line_with_its_remedy_below() {
        let failed = Finding::failed(CheckArea::Relays, "ses", "auth: 535 no", "correct the password").to_string();
        let plain = anstream::adapter::strip_str(&failed).to_string();
        assert_eq!(plain, "failed   relays         ses: auth: 535 no\n                        -> correct the password");
    }
}
