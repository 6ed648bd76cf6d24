//! Figures as bars, each above what it is compared with: one scale for each unit. What was looked at as time passed is a
//! line below, from zero to its own maximum.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use tera::{Context, Tera};

use crate::{
    figure::{Figure, count, median},
    table::number,
};

/// Pixels: the longest bar, and the heights of a unit's heading, of a bar with its label, and of a baseline.
const LONGEST: f64 = 560.0;
/// From the page's edge to a bar and from its end to its value, together.
const GAP: f64 = 22.0;
const HEADING: u32 = 34;
const BAR: u32 = 36;
const BASELINE: u32 = 14;
/// A line over time: its height, and that with the space around it.
const RISE: f64 = 40.0;
const LINE: u32 = 52;

#[derive(Serialize)]
struct Unit<'a> {
    name: &'a str,
    y: u32,
    bars: Vec<Bar<'a>>,
}

#[derive(Serialize)]
struct Bar<'a> {
    label: &'a str,
    y: u32,
    width: String,
    /// Where the value stands.
    end: String,
    value: String,
    baseline: Option<Baseline>,
    line: Option<Line>,
}

#[derive(Serialize)]
struct Baseline {
    width: String,
    end: String,
    value: String,
}

#[derive(Serialize)]
struct Line {
    /// `x,y x,y`
    points: String,
    y: u32,
    value: String,
}

/// An SVG of these figures.
///
/// # Errors
/// When the template is wrong.
pub fn svg(figures: &[Figure]) -> Result<String> {
    let mut by_unit = BTreeMap::<&str, Vec<&Figure>>::new();
    for figure in figures {
        by_unit.entry(&figure.unit).or_default().push(figure);
    }
    let mut y = 0;
    let units: Vec<_> = by_unit.into_iter().map(|(name, figures)| unit(name, &figures, &mut y)).collect();
    let mut context = Context::new();
    context.insert("height", &(y + BASELINE));
    context.insert("units", &units);
    let mut tera = Tera::default();
    tera.autoescape_on(vec![".svg"]);
    tera.add_raw_template("plot.svg", include_str!("plot.svg"))?;
    Ok(tera.render("plot.svg", &context)?)
}

fn unit<'a>(name: &'a str, figures: &[&'a Figure], y: &mut u32) -> Unit<'a> {
    let all = figures.iter().flat_map(|figure| {
        let baseline = figure.baseline.as_ref().map(|baseline| median(&baseline.rounds));
        [Some(figure.median()), baseline].into_iter().flatten()
    });
    let most = all.fold(f64::MIN_POSITIVE, f64::max);
    let width = |value: f64| (LONGEST * value / most).max(1.0);
    let pixels = |length: f64| format!("{length:.0}");
    let heading = *y + HEADING - 10;
    *y += HEADING;
    let bars = figures.iter().map(|figure| {
        let baseline = figure.baseline.as_ref().map(|baseline| {
            let value = median(&baseline.rounds);
            let (width, value) = (width(value), format!("{} {}", number(value), baseline.what));
            Baseline { width: pixels(width), end: pixels(width + GAP), value }
        });
        let top = *y;
        *y += BAR + if baseline.is_some() { BASELINE } else { 0 };
        let line = (figure.series.len() > 1).then(|| line(&figure.series, *y));
        *y += if line.is_some() { LINE } else { 0 };
        let (width, value) = (width(figure.median()), number(figure.median()));
        Bar { label: &figure.what, y: top, width: pixels(width), end: pixels(width + GAP), value, baseline, line }
    });
    let bars = bars.collect();
    Unit { name, y: heading, bars }
}

/// As wide as the longest bar, below `y`.
fn line(series: &[f64], y: u32) -> Line {
    let most = series.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let step = LONGEST / (count(series.len()) - 1.0);
    let point = |(n, value): (usize, &f64)| {
        format!("{:.0},{:.1}", 16.0 + step * count(n), f64::from(y) + RISE - RISE * value / most)
    };
    let points: Vec<_> = series.iter().enumerate().map(point).collect();
    Line { points: points.join(" "), y, value: format!("{} at most, over time", number(most)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_is_of_the_largest_value_of_its_unit() -> Result<()> {
        let mut fast = Figure::new("a < b", "mails/s").against("naive");
        fast.push_both(200.0, 50.0);
        let mut slow = Figure::new("slow", "ms");
        slow.push(3.0);
        let svg = svg(&[fast, slow])?;
        assert!(svg.contains(r#"<rect class="ours" x="16" y="52" width="560""#), "{svg}");
        assert!(svg.contains(r#"<rect class="baseline" x="16" y="65" width="140""#), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
        assert_eq!(svg.matches(r#"width="560""#).count(), 2, "a scale for each unit");
        Ok(())
    }

    #[test]
    fn a_line_goes_from_zero_to_its_own_maximum() -> Result<()> {
        let mut memory = Figure::new("memory", "MiB");
        memory.push(80.0);
        memory.over_time(vec![40.0, 80.0, 0.0]);
        let mut next = Figure::new("next", "MiB");
        next.push(1.0);
        let svg = svg(&[memory, next])?;
        assert!(svg.contains(r#"points="16,90.0 296,70.0 576,110.0""#), "{svg}");
        assert!(svg.contains("80 at most, over time"), "{svg}");
        assert!(svg.contains(r#"<text x="16" y="134">next</text>"#), "{svg}");
        Ok(())
    }
}
