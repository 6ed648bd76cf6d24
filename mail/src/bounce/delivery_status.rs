//! Delivery status notifications (RFC 3464).

use mail_parser::Message;
use tidings_model::delivery_events::{Bounce, Kind, Status, proven_status};

use super::{
    fields::{self, Fields},
    report::ParsedReport,
};

/// Returns the reports of all recipients; `None` if the message has no such part. `relayed` and `expanded` are no reports,
/// because another server took the message over.
pub(super) fn reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let text = fields::part(message, "delivery-status").or_else(|| fields::part(message, "global-delivery-status"))?;
    let groups = fields::groups(&text);
    // The first group is about the message, the others are about a recipient each.
    let recipients = groups.iter().filter(|group| group.get("Final-Recipient").or(group.get("Action")).is_some());
    Some(recipients.filter_map(report).collect())
}

fn report(fields: &Fields<'_>) -> Option<ParsedReport> {
    let diagnostic = fields.typed("Diagnostic-Code").unwrap_or_default().to_owned();
    let status = fields.get("Status").and_then(|status| status.split_whitespace().next()?.parse().ok());
    let action = fields.get("Action").and_then(|action| action.split_whitespace().next()).unwrap_or_default();
    let kind = kind(&action.to_ascii_lowercase(), status, &diagnostic)?;
    let status = proven_status(status, &diagnostic);
    let occurred_at = fields.time("Last-Attempt-Date");
    Some(ParsedReport { kind, status, diagnostic, recipient: recipient(fields), occurred_at })
}

/// The address that failed. sendmail reports a member of a group under the group's address, and the member as the actual recipient. A
/// name without a domain, such as a Unix user, is nobody's address.
fn recipient(fields: &Fields<'_>) -> Option<String> {
    let address = |name| fields.typed(name).filter(|address| address.contains('@')).map(str::to_owned);
    ["X-Actual-Recipient", "Final-Recipient", "Original-Recipient"].into_iter().find_map(address)
}

/// The report of a delivery to `recipient` that failed for good.
pub(super) fn failed(status: Option<Status>, diagnostic: String, recipient: Option<String>) -> ParsedReport {
    let kind = Kind::Bounced(bounce(status, &diagnostic));
    let status = proven_status(status, &diagnostic);
    ParsedReport { kind, status, diagnostic, recipient, occurred_at: None }
}

/// Decides by the action, and without one by the class of the status.
fn kind(action: &str, status: Option<Status>, diagnostic: &str) -> Option<Kind> {
    let class = proven_status(status, diagnostic).map(|Status(class, ..)| class);
    match (action, class) {
        ("failed", _) | ("", Some(5)) => Some(Kind::Bounced(bounce(status, diagnostic))),
        ("delayed", _) | ("", Some(4)) => Some(Kind::Deferred),
        ("delivered", _) | ("", Some(2)) => Some(Kind::Delivered),
        _ => None,
    }
}

/// A bounce is hard if the evidence is that there is no such address, as for a reply to RCPT (docs/delivery.md). Every other failure may
/// pass: a message that expired, a full mailbox, an unknown reason.
fn bounce(status: Option<Status>, diagnostic: &str) -> Bounce {
    let is_missing = proven_status(status, diagnostic).is_some_and(Status::is_missing_address);
    if is_missing { Bounce::Hard } else { Bounce::Soft }.with(status, diagnostic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_action_and_the_status_decide() {
        use Bounce::{Hard, Policy, Soft};
        for (action, status, expected) in [
            ("failed", "5.1.1", Some(Kind::Bounced(Hard))),
            ("failed", "5.1.10", Some(Kind::Bounced(Hard))),
            ("failed", "5.1.2", Some(Kind::Bounced(Soft))),
            ("failed", "5.2.2", Some(Kind::Bounced(Soft))),
            ("failed", "4.4.7", Some(Kind::Bounced(Soft))),
            ("failed", "5.0.0", Some(Kind::Bounced(Soft))),
            ("failed", "5.4.4", Some(Kind::Bounced(Soft))),
            ("failed", "5.7.1", Some(Kind::Bounced(Policy))),
            ("failed", "5.3.4", Some(Kind::Bounced(Policy))),
            ("failed", "", Some(Kind::Bounced(Soft))),
            ("delayed", "4.4.1", Some(Kind::Deferred)),
            ("delivered", "2.0.0", Some(Kind::Delivered)),
            ("relayed", "2.0.0", None),
            ("expanded", "2.0.0", None),
            ("", "5.1.1", Some(Kind::Bounced(Hard))),
            ("", "4.4.1", Some(Kind::Deferred)),
            ("", "", None),
            ("eaten", "5.1.1", None),
        ] {
            assert_eq!(kind(action, status.parse().ok(), ""), expected, "{action} {status}");
        }
    }
}
