//! A message that comes back: read without harm, in bounded numbers, and hard only with the status of a missing address.

use jiff::Timestamp;
use tidings_mail::bounce::{Content, ParsedReport, read};
use tidings_model::delivery_events::{Bounce, DeliveryEvent, Kind, Status};

use super::presentable::assert_presentable;

/// Reads the bytes as a message, and turns its reports into delivery events.
///
/// # Panics
/// Where a rule is broken.
pub fn bounce(bytes: &[u8]) {
    let returned = read(bytes);
    assert!(returned.tokens.len() <= 20);
    let Content::Reports(reports) = returned.content else { return };
    assert!((1..=20).contains(&reports.len()));
    for ParsedReport { kind, status, diagnostic, occurred_at, .. } in reports {
        let missing = matches!(status, Some(Status(5, 1, 1 | 2 | 3 | 6 | 10)));
        assert!(kind != Kind::Bounced(Bounce::Hard) || missing, "{kind} {status:?}");
        // Only the label 5.1.2 without a reply names a missing address and is not believed.
        let is_doubtful = matches!(status, Some(Status(5, 1, 2)));
        assert!(kind != Kind::Bounced(Bounce::Soft) || !missing || is_doubtful, "{kind} {status:?}");
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
