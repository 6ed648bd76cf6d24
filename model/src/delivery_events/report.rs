//! Delivery reports, the same for all providers.

use std::{fmt, str::FromStr};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// The kind of a delivery event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "bounce", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReportKind))]
pub enum ReportKind {
    /// The recipient's server took it.
    Delivered,
    /// The relay will retry.
    Deferred,
    /// The relay gave it up.
    Bounced(BounceKind),
    /// The recipient marked it as spam.
    Complained,
    /// Perhaps a machine that prefetches images.
    Opened,
    /// Perhaps a machine that scans links.
    Clicked,
    /// By the provider's own link or button.
    Unsubscribed,
}

closed_set! {
    pub enum BounceKind {
        Hard = "hard",
        /// E.g. the mailbox is full or the server is down.
        Soft = "soft",
        /// Rejects us or the message, not the address.
        Policy = "policy",
    }
}

impl ReportKind {
    pub const ALL: [Self; 9] = [
        Self::Delivered,
        Self::Deferred,
        Self::Bounced(BounceKind::Hard),
        Self::Bounced(BounceKind::Soft),
        Self::Bounced(BounceKind::Policy),
        Self::Complained,
        Self::Opened,
        Self::Clicked,
        Self::Unsubscribed,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Deferred => "deferred",
            Self::Bounced(_) => "bounced",
            Self::Complained => "complained",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Unsubscribed => "unsubscribed",
        }
    }

    /// Returns `true` if this can be reported for a dropped message.
    #[must_use]
    pub const fn fits_never_sent(self) -> bool {
        matches!(self, Self::Bounced(_) | Self::Complained | Self::Unsubscribed)
    }

    #[must_use]
    pub const fn bounce(self) -> Option<BounceKind> {
        match self {
            Self::Bounced(bounce) => Some(bounce),
            _ => None,
        }
    }
}

impl fmt::Display for ReportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bounced(BounceKind::Soft) => "soft bounce",
            Self::Bounced(BounceKind::Policy) => "refused by policy",
            other => other.name(),
        })
    }
}

/// Parses `5.1.1` (RFC 3463) into class, subject and detail.
#[must_use]
pub fn parse_enhanced_status(word: &str) -> Option<(u16, u16, u16)> {
    // Rust would also parse a plus sign.
    let is_number = |part: &&str| part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = word.split('.').map(|part| Some(part).filter(is_number)?.parse::<u16>().ok());
    let code = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(code)
}

/// Class, subject and detail (RFC 3463).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnhancedStatus(pub u16, pub u16, pub u16);

impl FromStr for EnhancedStatus {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match parse_enhanced_status(text) {
            Some((class @ (2 | 4 | 5), subject, detail)) => Ok(Self(class, subject, detail)),
            _ => Err(()),
        }
    }
}

impl fmt::Display for EnhancedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Serialize for EnhancedStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A kind of event and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryReport {
    #[serde(flatten)]
    pub kind: ReportKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub status: Option<EnhancedStatus>,
    /// The reply of the recipient's server, one line without addresses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub diagnostic: String,
    /// Rounded to milliseconds.
    pub occurred_at: Timestamp,
    /// The provider dropped the message because of its own list or rule, without contacting the recipient's
    /// server.
    #[serde(skip_serializing_if = "is_false")]
    pub never_sent: bool,
    /// Set if a machine opened the message or followed the link; missing if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<bool>,
    /// The link that was followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl DeliveryReport {
    #[must_use]
    pub const fn new(kind: ReportKind, occurred_at: Timestamp) -> Self {
        Self { kind, status: None, diagnostic: String::new(), occurred_at, never_sent: false, machine: None, url: None }
    }

    /// A soft bounce or a dropped copy proves nothing about another copy.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !self.never_sent && matches!(self.kind, ReportKind::Bounced(BounceKind::Hard | BounceKind::Policy))
    }

    /// Equal for equal reports about one message. SendGrid may change the provider's id in a repetition.
    #[must_use]
    pub fn report_id(&self, message: Uuid) -> Uuid {
        let mut text = format!("{} {self}", self.occurred_at.as_millisecond());
        // Older versions had neither field, and their events have to keep their ids.
        text.extend(self.machine.map(|machine| format!(" machine={machine}")));
        text.extend(self.url.as_ref().map(|url| format!(" url={url}")));
        Uuid::new_v5(&message, text.as_bytes())
    }
}

impl fmt::Display for DeliveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if self.never_sent {
            f.write_str(", never sent")?;
        }
        let status = self.status.map(|status| status.to_string()).unwrap_or_default();
        let said = [status.as_str(), &self.diagnostic].into_iter().filter(|part| !part.is_empty());
        let said = said.collect::<Vec<_>>().join(" ");
        if said.is_empty() { Ok(()) } else { write!(f, ": {said}") }
    }
}

/// A report as the store has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportRecord {
    #[serde(flatten)]
    pub report: DeliveryReport,
    /// The relay whose provider sent the report, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// The provider's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    pub received_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reports_have_one_id_and_different_reports_differ() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let report = DeliveryReport {
            status: Some(EnhancedStatus(5, 1, 1)),
            diagnostic: "no such user".into(),
            ..DeliveryReport::new(ReportKind::Bounced(BounceKind::Hard), at)
        };
        let (id, one) = (report.report_id(Uuid::from_u128(1)), Uuid::from_u128(1));
        assert_eq!(report.clone().report_id(one), id);
        assert_eq!(report.to_string(), "bounced: 5.1.1 no such user");
        let later = Timestamp::from_second(1_800_000_001).unwrap();
        for other in [
            report.report_id(Uuid::from_u128(2)),
            DeliveryReport { occurred_at: later, ..report.clone() }.report_id(one),
            DeliveryReport { status: None, ..report.clone() }.report_id(one),
            DeliveryReport { kind: ReportKind::Bounced(BounceKind::Soft), ..report.clone() }.report_id(one),
            DeliveryReport { never_sent: true, ..report.clone() }.report_id(one),
            DeliveryReport { machine: Some(false), ..report.clone() }.report_id(one),
            DeliveryReport { url: Some("https://app.example.com".into()), ..report.clone() }.report_id(one),
        ] {
            assert_ne!(other, id);
        }
        let never_sent = DeliveryReport { never_sent: true, ..report };
        assert_eq!(never_sent.to_string(), "bounced, never sent: 5.1.1 no such user");
    }

    #[test]
    fn an_event_that_a_former_version_recorded_keeps_its_id() {
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let id = DeliveryReport::new(ReportKind::Opened, at).report_id(Uuid::from_u128(1));
        assert_eq!(id, Uuid::new_v5(&Uuid::from_u128(1), b"1800000000000 opened"));
    }

    #[test]
    fn a_status_has_three_numbers_and_one_of_three_classes() {
        assert_eq!("5.1.10".parse(), Ok(EnhancedStatus(5, 1, 10)));
        for wrong in ["", "5.1", "3.1.1", "5.1.1.1", "five", "5.1.1000"] {
            assert!(wrong.parse::<EnhancedStatus>().is_err(), "{wrong}");
        }
    }
}
