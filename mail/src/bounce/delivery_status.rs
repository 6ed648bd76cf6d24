//! Delivery status notifications (RFC 3464).

use mail_parser::Message;
use tidings_model::delivery_events::{Bounce, Kind, Status};

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
    let status = exact(status, &diagnostic);
    let action = fields.get("Action").and_then(|action| action.split_whitespace().next()).unwrap_or_default();
    let kind = kind(&action.to_ascii_lowercase(), status)?;
    let occurred_at = fields.time("Last-Attempt-Date");
    Some(ParsedReport { kind, status, diagnostic, occurred_at })
}

/// The report of a delivery that failed for good.
pub(super) fn failed(status: Option<Status>, diagnostic: String) -> ParsedReport {
    let status = exact(status, &diagnostic);
    ParsedReport { kind: Kind::Bounced(bounce(status)), status, diagnostic, occurred_at: None }
}

/// Prefers the status in the reply of the recipient's server to a status that says nothing, such as Exim's 5.0.0.
fn exact(status: Option<Status>, diagnostic: &str) -> Option<Status> {
    match status {
        Some(Status(_, subject, detail)) if (subject, detail) != (0, 0) => status,
        _ => in_reply(diagnostic).or(status),
    }
}

/// Finds the status in a reply: `550 5.1.1 ...`, `550-5.1.1 ...`, `#5.1.1`, `(#5.1.1)`.
fn in_reply(diagnostic: &str) -> Option<Status> {
    let mut words = diagnostic.split([' ', '\t', '-', '(', ')', '#']).filter(|word| !word.is_empty());
    words.find_map(|word| word.parse().ok())
}

/// Decides by the action, and without one by the class of the status.
fn kind(action: &str, status: Option<Status>) -> Option<Kind> {
    let class = status.map(|Status(class, ..)| class);
    match (action, class) {
        ("failed", _) | ("", Some(5)) => Some(Kind::Bounced(bounce(status))),
        ("delayed", _) | ("", Some(4)) => Some(Kind::Deferred),
        ("delivered", _) | ("", Some(2)) => Some(Kind::Delivered),
        _ => None,
    }
}

/// A bounce is hard if the status says that there is no such address, as for a reply to RCPT (docs/delivery.md). Every other
/// failure may pass: a message that expired, a full mailbox, an unknown reason.
fn bounce(status: Option<Status>) -> Bounce {
    match status {
        Some(Status(5, 1, 1 | 2 | 3 | 6 | 10)) => Bounce::Hard,
        _ => Bounce::Soft.with(status),
    }
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
            assert_eq!(kind(action, status.parse().ok()), expected, "{action} {status}");
        }
    }

    #[test]
    fn a_status_that_says_nothing_gives_way_to_that_of_the_reply() {
        for (status, diagnostic, expected) in [
            ("5.0.0", "550 5.1.1 <ann@example.net>: unknown", "5.1.1"),
            ("5.0.0", "550-5.1.1 The email account does not exist.", "5.1.1"),
            ("", "I couldn't find a mailbox by that name. (#5.1.1)", "5.1.1"),
            ("5.2.2", "550 5.1.1 unknown", "5.2.2"),
            ("5.0.0", "550 no such user", "5.0.0"),
        ] {
            let found = exact(status.parse().ok(), diagnostic).map(|status| status.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{status} {diagnostic}");
        }
    }
}
