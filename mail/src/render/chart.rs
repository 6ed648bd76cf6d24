//! Charts without pictures: the numbers of a payload as characters of text, and as heights of table cells.

use tera::Value;

/// The most numbers that a chart shows. Earlier ones are left out.
const NUMBERS: usize = 12;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the latest numbers as text, from the lowest block to the highest. Empty if `series` has no numbers.
pub(super) fn sparkline(series: &Value) -> String {
    levels(series, BLOCKS.len()).into_iter().filter_map(|level| BLOCKS.get(level - 1)).collect()
}

/// The heights of the latest numbers, from 1 for the lowest to `most` for the highest.
pub(super) fn heights(series: &Value, most: usize) -> Vec<Value> {
    levels(series, most).into_iter().map(|level| Value::from_serializable(&level)).collect()
}

/// The change from `before` to `now` in whole per cent. `None`: one of them is not a number, or there was nothing before.
pub(super) fn percent(now: &Value, before: &Value) -> Option<i64> {
    let (now, before) = (now.as_f64()?, before.as_f64().filter(|before| *before != 0.0)?);
    whole((now - before) / before.abs() * 100.0)
}

/// The levels of the latest numbers, from 1 to `most`. Equal numbers are in the middle.
fn levels(series: &Value, most: usize) -> Vec<usize> {
    let numbers: Vec<f64> = series.as_array().unwrap_or_default().iter().filter_map(Value::as_f64).collect();
    let numbers = &numbers[numbers.len().saturating_sub(NUMBERS)..];
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let range = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let steps = f64::from(u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX));
    let share = |number: f64| if range > 0.0 { (number - least) / range } else { 0.5 };
    let level = |number: &f64| whole(share(*number) * steps).and_then(|step| usize::try_from(step).ok());
    numbers.iter().map(|number| 1 + level(number).unwrap_or_default()).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole(number: f64) -> Option<i64> {
    (number.abs() < 1e15).then(|| number.round() as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(json: &serde_json::Value) -> Value {
        Value::from_serializable(json)
    }

    #[test]
    fn a_sparkline_reaches_from_the_lowest_block_to_the_highest() {
        for (series, drawn) in [
            (json!([1, 2, 3, 4, 5, 6, 7, 8]), "▁▂▃▄▅▆▇█"),
            (json!([-4.5, 0, 4.5]), "▁▅█"),
            (json!([3, 3]), "▅▅"),
            (json!([0, "x", null, 9]), "▁█"),
            (json!([9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "▁▁▁▁▁▁▁▁▁▁▁█"),
            (json!([]), ""),
            (json!("12"), ""),
        ] {
            assert_eq!(sparkline(&value(&series)), drawn, "{series}");
        }
    }

    #[test]
    fn heights_are_within_their_limit() {
        let heights = |series| heights(&value(&series), 36).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(heights(json!([0, 50, 100])), ["1", "19", "36"]);
        assert_eq!(heights(json!([7])), ["19"]);
        assert_eq!(heights(json!([0, 1e300])), ["1", "36"]);
    }

    #[test]
    fn a_change_is_in_per_cent_of_what_was_before() {
        for (now, before, change) in [
            (json!(1_204), json!(1_071), Some(12)),
            (json!(1), json!(4), Some(-75)),
            (json!(5), json!(-10), Some(150)),
            (json!(5), json!(0), None),
            (json!(5), json!(""), None),
            (json!(1e300), json!(1), None),
        ] {
            assert_eq!(percent(&value(&now), &value(&before)), change, "{now} {before}");
        }
    }
}
