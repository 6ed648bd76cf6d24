//! The figures of a bench: values of several rounds, each with a baseline from the same rounds.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// A run of one bench, as `target/bench/NAME.json` stores it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub name: String,
    /// The command as typed.
    pub command: String,
    /// The measured commit. Older files have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub machine: Machine,
    pub figures: Vec<Figure>,
}

/// A measured quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub unit: String,
    /// The value of each round.
    pub rounds: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Values of the last round over time, for benches that record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<f64>,
}

/// The baseline of a figure: measured in the same rounds, in the same unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    pub what: String,
    pub rounds: Vec<f64>,
}

/// A budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// At least this multiple of the baseline.
    Times(f64),
    /// At most this much above the baseline.
    Above(f64),
}

impl Figure {
    pub fn new(what: impl Into<String>, unit: &str) -> Self {
        Self {
            what: what.into(),
            unit: unit.to_owned(),
            rounds: Vec::new(),
            baseline: None,
            target: None,
            series: Vec::new(),
        }
    }

    pub fn against(self, what: &str) -> Self {
        Self { baseline: Some(Baseline { what: what.to_owned(), rounds: Vec::new() }), ..self }
    }

    pub fn target(self, target: Target) -> Self {
        Self { target: Some(target), ..self }
    }

    /// Adds the value of a round.
    pub fn push(&mut self, value: f64) {
        self.rounds.push(value);
    }

    /// Adds the values of a round.
    pub fn push_both(&mut self, value: f64, baseline: f64) {
        self.rounds.push(value);
        if let Some(Baseline { rounds, .. }) = &mut self.baseline {
            rounds.push(baseline);
        }
    }

    /// Records a round's values over time.
    pub fn over_time(&mut self, series: Vec<f64>) {
        self.series = series;
    }

    pub fn median(&self) -> f64 {
        median(&self.rounds)
    }

    /// The multiple of the baseline: the median of the rounds' ratios.
    pub fn ratio(&self) -> Option<f64> {
        let Baseline { rounds, .. } = self.baseline.as_ref()?;
        let ratios: Vec<_> = self.rounds.iter().zip(rounds).map(|(value, baseline)| value / baseline).collect();
        Some(median(&ratios))
    }

    /// The median of what the rounds have above their baselines.
    pub fn above(&self) -> Option<f64> {
        let Baseline { rounds, .. } = self.baseline.as_ref()?;
        let above: Vec<_> = self.rounds.iter().zip(rounds).map(|(value, baseline)| value - baseline).collect();
        Some(median(&above))
    }

    /// Answers `true` if the budget is kept, and `None` without a budget.
    pub fn met(&self) -> Option<bool> {
        Some(match self.target? {
            Target::AtLeast(least) => self.median() >= least,
            Target::AtMost(most) => self.median() <= most,
            Target::Times(times) => self.ratio()? >= times,
            Target::Above(most) => self.above()? <= most,
        })
    }
}

/// The median. For an even number of values, the mean of the middle two.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The percentile: the smallest value that at least this percentage of the values does not exceed.
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// A count as a float, exact up to 4,294,967,295.
pub fn count(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "means of small whole numbers are exact")]
mod tests {
    use super::*;

    fn figure(rounds: &[f64], baseline: &[f64]) -> Figure {
        let mut figure = Figure::new("events", "events/s").against("naive");
        for (value, baseline) in rounds.iter().zip(baseline) {
            figure.push_both(*value, *baseline);
        }
        figure
    }

    #[test]
    fn the_ratio_compares_values_of_the_same_round() {
        let figure = figure(&[10.0, 40.0, 20.0], &[1.0, 2.0, 20.0]);
        assert_eq!((figure.median(), figure.ratio()), (20.0, Some(10.0)));
    }

    #[test]
    fn a_budget_is_kept_at_its_bound_and_not_beyond() {
        let of = |target| figure(&[20.0], &[10.0]).target(target).met();
        assert_eq!(of(Target::AtLeast(20.0)), Some(true));
        assert_eq!(of(Target::AtLeast(20.1)), Some(false));
        assert_eq!(of(Target::AtMost(20.0)), Some(true));
        assert_eq!(of(Target::AtMost(19.9)), Some(false));
        assert_eq!(of(Target::Times(2.0)), Some(true));
        assert_eq!(of(Target::Times(2.1)), Some(false));
        assert_eq!(of(Target::Above(10.0)), Some(true));
        assert_eq!(of(Target::Above(9.9)), Some(false));
        assert_eq!(figure(&[1.0], &[1.0]).met(), None);
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<_> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&values, percent)), [100.0, 198.0, 200.0]);
        assert_eq!(percentile(&[7.0], 99), 7.0);
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0, 1.0]), 2.0);
    }
}
