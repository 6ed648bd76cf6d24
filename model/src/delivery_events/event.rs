//! A provider's webhook event, raw and validated.

use std::time::Duration;

use jiff::{Timestamp, Unit};
use uuid::Uuid;

use super::report::{DeliveryReport, ReportKind};
use crate::{
    limits::{self, InvalidField},
    presentable,
};

/// How far a provider's clock may be ahead, e.g. in a wrong time zone.
const AHEAD: Duration = Duration::from_hours(24);
const URL_CHARS: usize = 2_000;

/// Do not log this: may contain an email address.
#[derive(Clone)]
pub struct DeliveryEvent {
    /// As named in `tidings.toml`, if the webhook belongs to a relay.
    pub relay: Option<String>,
    /// Set if the webhook belongs to a tenant: it then cannot find other tenants' messages.
    pub tenant: Option<String>,
    /// Our own id, from the header `X-Tidings-Message` or the provider's custom data (see
    /// [`Provider`](crate::Provider)).
    pub message: Option<String>,
    /// `Message-ID` (RFC 5322), with or without angle brackets, if the provider returns nothing else.
    pub message_id: Option<String>,
    /// From the reply to DATA. Needs `relay`.
    pub relay_id: Option<String>,
    /// For a bounce, `status` and the reply in `diagnostic` override the provider's classification.
    pub kind: ReportKind,
    /// Enhanced status code (RFC 3463), e.g. `5.1.1`.
    pub status: Option<String>,
    /// The recipient's server's reply. We remove addresses and cut it to 300 characters.
    pub diagnostic: Option<String>,
    /// By the provider's clock.
    pub occurred_at: Timestamp,
    /// Stored, but not used.
    pub event_id: Option<String>,
    /// See [`DeliveryReport::never_sent`].
    pub never_sent: bool,
    /// See [`DeliveryReport::machine`].
    pub machine: Option<bool>,
    /// Up to 2,000 characters.
    pub url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDeliveryEvent {
    /// `None` for a report from elsewhere, with other proof of its message.
    pub relay: Option<String>,
    /// Other names under which this relay made attempts; see
    /// [`Settings::reports_for`](crate::settings::Settings::reports_for).
    pub reports_for: Vec<String>,
    pub tenant: Option<String>,
    /// Not empty; try these in order.
    pub of: Vec<MessageReference>,
    pub report: DeliveryReport,
    pub event_id: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageReference {
    Id(Uuid),
    /// `Message-ID` without angle brackets.
    MessageId(String),
    RelayId(String),
}

impl DeliveryEvent {
    #[must_use]
    pub const fn new(kind: ReportKind, occurred_at: Timestamp) -> Self {
        Self {
            relay: None,
            tenant: None,
            message: None,
            message_id: None,
            relay_id: None,
            kind,
            status: None,
            diagnostic: None,
            occurred_at,
            event_id: None,
            never_sent: false,
            machine: None,
            url: None,
        }
    }

    #[must_use]
    pub const fn names_a_message(&self) -> bool {
        self.message.is_some() || self.message_id.is_some() || self.relay_id.is_some()
    }

    /// # Errors
    /// Names the first invalid field and shows a correct value.
    pub fn check(self, now: Timestamp) -> Result<CheckedDeliveryEvent, InvalidField> {
        for (field, id) in [("relay", &self.relay), ("tenant", &self.tenant), ("event_id", &self.event_id)] {
            id.as_ref().map_or(Ok(()), |id| limits::check_id(field, id))?;
        }
        let of = message_references(self.message.as_deref(), self.message_id.as_deref(), self.relay_id.as_deref())?;
        let status = self.status.as_deref().map(|text| {
            let right = || format!("{text:?} is not an enhanced status code; \"5.1.1\" is one");
            text.trim().parse().map_err(|()| invalid_field("status", right()))
        });
        let status = status.transpose()?;
        let diagnostic = self.diagnostic.unwrap_or_default();
        let kind = match self.kind {
            ReportKind::Bounced(bounce) => ReportKind::Bounced(bounce.with_evidence(status, &diagnostic)),
            other => other,
        };
        if self.occurred_at > now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX) {
            return Err(invalid_field("occurred_at", format!("{:.0} is more than a day ahead", self.occurred_at)));
        }
        if self.never_sent && !kind.fits_never_sent() {
            return Err(invalid_field("never_sent", format!("does not fit an event of the kind {}", kind.name())));
        }
        let occurred_at = self.occurred_at.round(Unit::Millisecond);
        let occurred_at = occurred_at.map_err(|error| invalid_field("occurred_at", error.to_string()))?;
        let diagnostic = presentable(&diagnostic);
        let url = self.url.map(|url| url.chars().filter(|c| !c.is_control()).take(URL_CHARS).collect());
        let (never_sent, machine) = (self.never_sent, self.machine);
        let report = DeliveryReport { kind, status, diagnostic, occurred_at, never_sent, machine, url };
        Ok(CheckedDeliveryEvent {
            relay: self.relay,
            reports_for: Vec::new(),
            tenant: self.tenant,
            of,
            report,
            event_id: self.event_id,
        })
    }
}

/// Our own id is enough. The relay's id comes last, for providers that replace `Message-ID`.
fn message_references(
    message: Option<&str>,
    message_id: Option<&str>,
    relay_id: Option<&str>,
) -> Result<Vec<MessageReference>, InvalidField> {
    if let Some(id) = message {
        let id = id.trim().parse().map_err(|_| invalid_field("message", format!("{id:?} is not a UUID")))?;
        return Ok(vec![MessageReference::Id(id)]);
    }
    let mut of = Vec::new();
    if let Some(id) = message_id.map(str::trim) {
        let id = id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id);
        limits::check_id("message_id", id)?;
        of.push(MessageReference::MessageId(id.to_owned()));
    }
    if let Some(id) = relay_id.map(str::trim) {
        limits::check_id("relay_id", id)?;
        of.push(MessageReference::RelayId(id.to_owned()));
    }
    if of.is_empty() {
        return Err(invalid_field("message", "is required, or message_id, or relay_id"));
    }
    Ok(of)
}

fn invalid_field(field: &str, problem: impl Into<String>) -> InvalidField {
    InvalidField { field: field.to_owned(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery_events::{BounceKind, EnhancedStatus};

    const ID: &str = "01234567-89ab-5def-8123-456789abcdef";
    const NOW: &str = "2026-11-21T12:00:00Z";

    fn event() -> DeliveryEvent {
        DeliveryEvent {
            relay: Some("ses".into()),
            message: Some(ID.into()),
            status: Some("5.1.1".into()),
            diagnostic: Some("smtp; 550 5.1.1\r\n <ann@example.com> unknown".into()),
            event_id: Some("e1".into()),
            ..DeliveryEvent::new(ReportKind::Bounced(BounceKind::Hard), "2026-11-21T11:59:00.123456Z".parse().unwrap())
        }
    }

    fn checked(event: DeliveryEvent) -> Result<CheckedDeliveryEvent, String> {
        event.check(NOW.parse().unwrap()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_stored_report_has_no_address_and_whole_milliseconds() {
        let CheckedDeliveryEvent { of, report, .. } = checked(event()).unwrap();
        assert_eq!(of, [MessageReference::Id(ID.parse().unwrap())]);
        assert_eq!(
            (report.kind, report.status),
            (ReportKind::Bounced(BounceKind::Hard), Some(EnhancedStatus(5, 1, 1)))
        );
        assert_eq!(report.diagnostic, "smtp; 550 5.1.1 <address> unknown");
        assert_eq!(report.occurred_at.to_string(), "2026-11-21T11:59:00.123Z");
        let labelled = |status: &str, diagnostic: Option<&str>| {
            let diagnostic = diagnostic.map(str::to_owned);
            checked(DeliveryEvent { status: Some(status.into()), diagnostic, ..event() }).unwrap().report.kind
        };
        assert_eq!(labelled("5.7.1", None), ReportKind::Bounced(BounceKind::Policy));
        assert_eq!(
            labelled("5.1.1", Some("550 5.7.1 rejected")),
            ReportKind::Bounced(BounceKind::Policy),
            "the reply decides"
        );
    }

    #[test]
    fn a_report_names_its_message_in_three_ways() {
        let by = |message: Option<&str>, message_id: Option<&str>, relay_id: Option<&str>| {
            let [message, message_id, relay_id] = [message, message_id, relay_id].map(|id| id.map(str::to_owned));
            checked(DeliveryEvent { message, message_id, relay_id, ..event() }).map(|reported| reported.of)
        };
        let message_id = || MessageReference::MessageId("m@example.com".into());
        assert_eq!(
            by(Some(ID), Some("<m@example.com>"), Some("r1")),
            Ok(vec![MessageReference::Id(ID.parse().unwrap())])
        );
        for written in ["<m@example.com>", " m@example.com "] {
            assert_eq!(by(None, Some(written), None), Ok(vec![message_id()]));
        }
        assert_eq!(
            by(None, Some("m@example.com"), Some("r1")),
            Ok(vec![message_id(), MessageReference::RelayId("r1".into())])
        );
        assert_eq!(by(None, None, Some("r1")), Ok(vec![MessageReference::RelayId("r1".into())]));
    }

    #[test]
    fn a_link_is_one_line_of_limited_length() {
        let url = |url: &str| {
            checked(DeliveryEvent { kind: ReportKind::Clicked, url: Some(url.into()), ..event() })
                .unwrap()
                .report
                .url
                .unwrap()
        };
        assert_eq!(url("https://app.example.com/\u{0}\r\na?x=1"), "https://app.example.com/a?x=1");
        assert_eq!(url(&"ü".repeat(3_000)).chars().count(), 2_000);
    }

    #[test]
    fn a_refusal_names_the_field_and_what_would_be_right() {
        let ahead = "2026-11-22T12:00:01Z".parse().unwrap();
        for (wrong, says) in [
            (DeliveryEvent { message: None, ..event() }, "message: is required, or message_id, or relay_id"),
            (DeliveryEvent { message: Some("7".into()), ..event() }, "message: \"7\" is not a UUID"),
            (DeliveryEvent { message: None, message_id: Some("<>".into()), ..event() }, "message_id: is required"),
            (DeliveryEvent { relay: Some(String::new()), ..event() }, "relay: is required"),
            (DeliveryEvent { tenant: Some("a\nb".into()), ..event() }, "tenant: has the control character"),
            (DeliveryEvent { event_id: Some("x".repeat(256)), ..event() }, "event_id: has 256 bytes, the limit is 255"),
            (DeliveryEvent { status: Some("550".into()), ..event() }, "status: \"550\" is not an enhanced status code"),
            (
                DeliveryEvent { kind: ReportKind::Opened, never_sent: true, ..event() },
                "never_sent: does not fit an event of the kind opened",
            ),
            (DeliveryEvent { occurred_at: ahead, ..event() }, "occurred_at: 2026-11-22T12:00:01Z is more than a day"),
        ] {
            let said = checked(wrong).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
