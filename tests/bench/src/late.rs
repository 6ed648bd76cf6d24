//! The lateness of emails: from the deadline of a digest in the ledger to the sink's acceptance of its email.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use uuid::Uuid;

use crate::{figure::percentile, sink::Mail, worker::Tidings};

/// The email of one digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// The deadline of the window.
    pub due_at: Timestamp,
    pub accepted_at: Timestamp,
}

impl Late {
    /// Reads the lateness of every email in the sink.
    pub async fn all(tidings: &Tidings) -> Result<Vec<Self>> {
        // The sink is read before the ledger, so the ledger has the digest of every email.
        let mails = tidings.sink.mails();
        paired(&mails, &tidings.ledger.deadlines().await?)
    }

    /// Seconds from the deadline to the acceptance.
    pub fn seconds(&self) -> f64 {
        self.after(self.due_at)
    }

    /// Seconds from `start` to the acceptance.
    pub fn after(&self, then: Timestamp) -> f64 {
        self.accepted_at.duration_since(then).as_secs_f64()
    }
}

/// Pairs each email with the deadline of its digest.
fn paired(mails: &[Mail], planned: &BTreeMap<Uuid, Timestamp>) -> Result<Vec<Late>> {
    let mut left = planned.clone();
    let pair = |mail: &Mail| {
        ensure!(planned.contains_key(&mail.id), "the ledger does not know {}, which was sent", mail.id);
        let due_at = left.remove(&mail.id).with_context(|| format!("{} was sent twice", mail.id))?;
        Ok(Late { due_at, accepted_at: mail.at })
    };
    mails.iter().map(pair).collect()
}

/// The median, the p99 and the longest.
pub fn percentiles(values: &[f64]) -> [f64; 3] {
    [50, 99, 100].map(|percent| percentile(values, percent))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole milliseconds are exact")]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn mail(id: u128, second: i64) -> Mail {
        Mail { id: Uuid::from_u128(id), at: at(second) }
    }

    #[test]
    fn lateness_counts_from_the_deadline_of_each_email() -> Result<()> {
        let planned = BTreeMap::from([1, 2, 3].map(|n: u8| (Uuid::from_u128(n.into()), at(i64::from(n) * 10))));
        let late = paired(&[mail(2, 21), mail(1, 25)], &planned)?;
        assert_eq!(late.iter().map(Late::seconds).collect::<Vec<_>>(), [1.0, 15.0]);
        assert_eq!(late.iter().map(|late| late.after(at(5))).collect::<Vec<_>>(), [16.0, 20.0]);
        Ok(())
    }

    #[test]
    fn an_unplanned_or_repeated_email_is_an_error() {
        let planned = BTreeMap::from([(Uuid::from_u128(1), at(0))]);
        assert!(paired(&[mail(2, 1)], &planned).unwrap_err().to_string().contains("does not know"));
        assert!(paired(&[mail(1, 1), mail(1, 2)], &planned).unwrap_err().to_string().contains("twice"));
    }

    #[test]
    fn the_last_of_the_three_percentiles_is_the_longest() {
        let seconds: Vec<_> = (1..=1_000).map(f64::from).collect();
        assert_eq!(percentiles(&seconds), [500.0, 990.0, 1_000.0]);
    }
}
