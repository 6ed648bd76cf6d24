//! A message that comes back: read without harm, in bounded numbers, and hard only with the status of a missing address.

use jiff::Timestamp;
use tidings_mail::bounce::{ParsedReport, ReturnedContent, parse_bounce};
use tidings_model::delivery_events::{BounceKind, DeliveryEvent, EnhancedStatus, ReportKind};

use super::presentable::assert_presentable;

/// Reads the bytes as a message, and turns its reports into delivery events.
///
/// # Panics
/// Where a rule is broken.
pub fn bounce(bytes: &[u8]) {
    let returned = parse_bounce(bytes);
    assert!(returned.tokens.len() <= 20);
    let ReturnedContent::Reports(reports) = returned.content else { return };
    assert!((1..=20).contains(&reports.len()));
    for ParsedReport { kind, status, diagnostic, occurred_at, .. } in reports {
        let missing = matches!(status, Some(EnhancedStatus(5, 1, 1 | 2 | 3 | 6 | 10)));
        assert!(kind != ReportKind::Bounced(BounceKind::Hard) || missing, "{kind} {status:?}");
        // Only the label 5.1.2 without a reply names a missing address and is not believed.
        let is_doubtful = matches!(status, Some(EnhancedStatus(5, 1, 2)));
        assert!(kind != ReportKind::Bounced(BounceKind::Soft) || !missing || is_doubtful, "{kind} {status:?}");
        let event = DeliveryEvent {
            message: Some("01234567-89ab-5def-8123-456789abcdef".to_owned()),
            status: status.map(|status| status.to_string()),
            diagnostic: Some(diagnostic),
            ..DeliveryEvent::new(kind, occurred_at.unwrap_or_default().min(Timestamp::UNIX_EPOCH))
        };
        let reported = event.check(Timestamp::UNIX_EPOCH).expect("a read report can be recorded");
        assert_presentable("a diagnostic", &reported.report.diagnostic, 4 * 300 + 20);
    }
}
