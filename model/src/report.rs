//! Delivery statistics: counts messages by their reports, once for each kind of report, on the day the
//! message was created. Repeated or reordered reports and deleted rows do not change a count.

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::Serialize;

use crate::delivery_events::{BounceKind, DeliveryReport, ReportKind};

closed_set! {
    pub enum ReportGrouping {
        DigestType = "digest_type",
        Template = "template",
        Relay = "relay",
        Day = "day",
    }
}

closed_set! {
    /// The names are also the column names.
    pub enum CountedReport {
        Delivered = "delivered",
        Deferred = "deferred",
        BouncedHard = "bounced_hard",
        BouncedSoft = "bounced_soft",
        BouncedPolicy = "bounced_policy",
        /// The provider withheld the message, whatever else it reported.
        NeverSent = "never_sent",
        Complained = "complained",
        Unsubscribed = "unsubscribed",
        OpenedPeople = "opened_people",
        OpenedMachines = "opened_machines",
        OpenedUnknown = "opened_unknown",
        ClickedPeople = "clicked_people",
        ClickedMachines = "clicked_machines",
        ClickedUnknown = "clicked_unknown",
    }
}

impl CountedReport {
    #[must_use]
    pub const fn from_report(report: &DeliveryReport) -> Self {
        match (report.kind, report.machine) {
            _ if report.never_sent => Self::NeverSent,
            (ReportKind::Delivered, _) => Self::Delivered,
            (ReportKind::Deferred, _) => Self::Deferred,
            (ReportKind::Bounced(BounceKind::Hard), _) => Self::BouncedHard,
            (ReportKind::Bounced(BounceKind::Soft), _) => Self::BouncedSoft,
            (ReportKind::Bounced(BounceKind::Policy), _) => Self::BouncedPolicy,
            (ReportKind::Complained, _) => Self::Complained,
            (ReportKind::Unsubscribed, _) => Self::Unsubscribed,
            (ReportKind::Opened, Some(false)) => Self::OpenedPeople,
            (ReportKind::Opened, Some(true)) => Self::OpenedMachines,
            (ReportKind::Opened, None) => Self::OpenedUnknown,
            (ReportKind::Clicked, Some(false)) => Self::ClickedPeople,
            (ReportKind::Clicked, Some(true)) => Self::ClickedMachines,
            (ReportKind::Clicked, None) => Self::ClickedUnknown,
        }
    }

    #[must_use]
    pub const fn bit(self) -> i64 {
        1 << self as u32
    }
}

/// Messages created from the first day up to, but not including, the second.
#[derive(Clone, Debug)]
pub struct ReportQuery {
    pub tenant: Option<String>,
    pub from: Date,
    pub until: Date,
    pub by: Option<ReportGrouping>,
}

impl ReportQuery {
    #[must_use]
    pub fn new(tenant: Option<String>, since: Timestamp, until: Timestamp, by: Option<ReportGrouping>) -> Self {
        Self { tenant, from: utc_date(since), until: utc_date(until).tomorrow().unwrap_or(Date::MAX), by }
    }

    /// Days since 1970-01-01.
    #[must_use]
    pub fn days(&self) -> [i64; 2] {
        [self.from, self.until].map(|date| {
            let midnight = date.to_zoned(TimeZone::UTC).map(|midnight| midnight.timestamp().as_second());
            midnight.unwrap_or_default().div_euclid(86_400)
        })
    }
}

/// Messages that opened or clicked, by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ByWhom {
    pub people: u64,
    pub machines: u64,
    /// The provider does not tell people from machines.
    pub unknown: u64,
}

/// Messages that bounced, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportedBounces {
    pub hard: u64,
    pub soft: u64,
    pub policy: u64,
}

/// Messages with at least one report of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportCounts {
    /// A relay accepted the message.
    pub sent: u64,
    pub delivered: u64,
    pub deferred: u64,
    pub bounced: ReportedBounces,
    /// Withheld by the provider, e.g. because of its own suppression list.
    pub never_sent: u64,
    pub complained: u64,
    pub unsubscribed: u64,
    pub opened: ByWhom,
    pub clicked: ByWhom,
}

/// Shares of messages; `None` if the denominator is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportRates {
    pub delivered_of_sent: Option<f64>,
    pub bounced_of_sent: Option<f64>,
    pub complained_of_delivered: Option<f64>,
    pub unsubscribed_of_delivered: Option<f64>,
    /// Only openings by people.
    pub opened_of_delivered: Option<f64>,
    /// Only clicks by people.
    pub clicked_of_delivered: Option<f64>,
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReportLine))]
pub struct ReportLine {
    /// The type, template, relay or day; empty for all messages together.
    pub of: String,
    #[serde(flatten)]
    pub counts: ReportCounts,
    pub rates: ReportRates,
}

impl ReportLine {
    /// `bucket` is the value of the column; days arrive as numbers since 1970-01-01.
    #[must_use]
    pub fn new(by: Option<ReportGrouping>, bucket: String, counts: ReportCounts) -> Self {
        let date = |days: &str| Timestamp::from_second(days.parse::<i64>().ok()?.checked_mul(86_400)?).ok();
        let of = match by {
            Some(ReportGrouping::Day) => date(&bucket).map_or(bucket, |midnight| utc_date(midnight).to_string()),
            _ => bucket,
        };
        Self { of, counts, rates: counts.rates() }
    }
}

impl ReportCounts {
    /// Note that a message which bounced in two ways counts twice.
    #[must_use]
    pub fn rates(&self) -> ReportRates {
        let Self { sent, delivered, bounced: ReportedBounces { hard, soft, policy }, .. } = *self;
        ReportRates {
            delivered_of_sent: share(delivered, sent),
            bounced_of_sent: share(hard + soft + policy, sent),
            complained_of_delivered: share(self.complained, delivered),
            unsubscribed_of_delivered: share(self.unsubscribed, delivered),
            opened_of_delivered: share(self.opened.people, delivered),
            clicked_of_delivered: share(self.clicked.people, delivered),
        }
    }
}

fn utc_date(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

#[expect(clippy::cast_precision_loss, reason = "a share of messages needs no more than 52 bits")]
fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_of_report_has_a_bit_of_its_own() {
        let bits: Vec<_> = CountedReport::ALL.into_iter().map(CountedReport::bit).collect();
        assert_eq!(bits, (0..14).map(|n| 1 << n).collect::<Vec<i64>>());
        let at = Timestamp::UNIX_EPOCH;
        let of = |kind, machine, never_sent| {
            CountedReport::from_report(&DeliveryReport { never_sent, machine, ..DeliveryReport::new(kind, at) })
        };
        for (kind, machine, never_sent, counted) in [
            (ReportKind::Opened, Some(true), false, CountedReport::OpenedMachines),
            (ReportKind::Clicked, None, false, CountedReport::ClickedUnknown),
            (ReportKind::Bounced(BounceKind::Hard), None, false, CountedReport::BouncedHard),
            (ReportKind::Bounced(BounceKind::Hard), None, true, CountedReport::NeverSent),
            (ReportKind::Complained, None, true, CountedReport::NeverSent),
        ] {
            assert_eq!(of(kind, machine, never_sent), counted);
        }
    }

    #[test]
    fn a_question_has_whole_days_of_utc() {
        let at = |text: &str| text.parse().unwrap();
        let question = ReportQuery::new(None, at("1970-01-02T23:59:59Z"), at("1970-01-04T00:00:00Z"), None);
        assert_eq!(question.days(), [1, 4]);
    }

    #[test]
    fn a_rate_without_its_denominator_is_none() {
        let counts = ReportCounts {
            sent: 4,
            delivered: 2,
            bounced: ReportedBounces { hard: 1, soft: 0, policy: 1 },
            opened: ByWhom { people: 1, machines: 2, unknown: 0 },
            ..ReportCounts::default()
        };
        let rates = counts.rates();
        assert_eq!((rates.delivered_of_sent, rates.bounced_of_sent), (Some(0.5), Some(0.5)));
        assert_eq!((rates.opened_of_delivered, rates.complained_of_delivered), (Some(0.5), Some(0.0)));
        assert_eq!(ReportCounts::default().rates(), ReportRates::default());
    }

    #[test]
    fn a_day_is_a_date_and_the_json_names_each_denominator() {
        let counts = ReportCounts {
            sent: 200,
            delivered: 190,
            deferred: 1,
            bounced: ReportedBounces { hard: 4, soft: 1, policy: 1 },
            never_sent: 2,
            complained: 1,
            unsubscribed: 0,
            opened: ByWhom { people: 38, machines: 80, unknown: 1 },
            clicked: ByWhom::default(),
        };
        let line = ReportLine::new(Some(ReportGrouping::Day), "20411".to_owned(), counts);
        assert_eq!(line.of, "2025-11-19");
        let expected = json!({
            "of": "2025-11-19", "sent": 200, "delivered": 190, "deferred": 1,
            "bounced": {"hard": 4, "soft": 1, "policy": 1}, "never_sent": 2, "complained": 1, "unsubscribed": 0,
            "opened": {"people": 38, "machines": 80, "unknown": 1}, "clicked": {"people": 0, "machines": 0, "unknown": 0},
            "rates": {
                "delivered_of_sent": 0.95, "bounced_of_sent": 0.03, "complained_of_delivered": 1.0 / 190.0,
                "unsubscribed_of_delivered": 0.0, "opened_of_delivered": 0.2, "clicked_of_delivered": 0.0,
            },
        });
        assert_eq!(json!(line), expected);
    }
}
