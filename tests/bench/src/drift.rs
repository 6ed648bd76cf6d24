//! Finds changes over hours: the last tenth against the first, and the slope of a line through all slices.

use std::time::Duration;

use jiff::Timestamp;

use crate::late::Late;

/// The slope of the least-squares line through these points.
pub fn slope(points: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| mean(&points.iter().map(of).collect::<Vec<_>>());
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
    sum(&|point| (point.0 - x) * (point.1 - y)) / sum(&|point| (point.0 - x).powi(2))
}

/// A tenth of this number of slices, but at least one.
pub const fn tenth(slices: usize) -> usize {
    if slices < 10 { 1 } else { slices / 10 }
}

/// The first and the last tenth.
pub fn first_and_last<T>(slices: &[T]) -> (&[T], &[T]) {
    let tenth = tenth(slices.len()).min(slices.len());
    (&slices[..tenth], &slices[slices.len() - tenth..])
}

/// The mean. NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / crate::figure::count(values.len())
}

/// The lateness in seconds of the emails that were due in each slice of the time since `begin`. Emails due outside all
/// slices are left out.
pub fn by_slice(late: &[Late], begin: Timestamp, slice: Duration, slices: usize) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); slices];
    for late in late {
        let since = Duration::try_from(late.due_at.duration_since(begin)).ok();
        let at = since.and_then(|since| usize::try_from(since.as_millis() / slice.as_millis()).ok());
        if let Some(values) = at.and_then(|at| all.get_mut(at)) {
            values.push(late.seconds());
        }
    }
    all
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums of small whole numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn a_constant_has_no_slope_and_noise_does_not_change_one() {
        let line = |noise: f64| -> Vec<_> {
            (0..60).map(f64::from).map(|x| (x, 3.0 + 0.5 * x + if x % 2.0 == 0.0 { noise } else { -noise })).collect()
        };
        assert!((slope(&line(0.0)) - 0.5).abs() < 1e-9);
        assert!((slope(&line(2.0)) - 0.5).abs() < 0.01);
        assert_eq!(slope(&[(0.0, 7.0), (1.0, 7.0), (2.0, 7.0)]), 0.0);
    }

    #[test]
    fn a_slice_is_a_tenth_and_at_least_a_minute() {
        let minutes: Vec<_> = (0..60).collect();
        assert_eq!(first_and_last(&minutes), (&[0, 1, 2, 3, 4, 5][..], &[54, 55, 56, 57, 58, 59][..]));
        assert_eq!(first_and_last(&[1, 2, 3]), (&[1][..], &[3][..]));
        assert_eq!(first_and_last::<u8>(&[]), (&[][..], &[][..]));
    }

    #[test]
    fn an_email_belongs_to_the_slice_in_which_it_was_due() {
        let at = |millisecond: i64| Timestamp::from_millisecond(1_767_225_600_000 + millisecond).unwrap();
        let late = [(-1, 0), (0, 500), (5_999, 9_999), (6_000, 6_001), (12_000, 12_000)]
            .map(|(due, accepted)| Late { due_at: at(due), accepted_at: at(accepted) });
        assert_eq!(by_slice(&late, at(0), Duration::from_secs(6), 2), [vec![0.5, 4.0], vec![0.001]]);
    }
}
