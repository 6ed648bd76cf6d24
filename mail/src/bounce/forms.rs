//! The forms of a report. Each function returns the reports of a message, or `None` if it is not of this form.

use mail_parser::{Message, PartType};
use tidings_model::delivery_events::{Bounce, Kind, Status, proven_status};

use super::{
    REPORTS,
    report::{Fields, ParsedReport, groups, part},
};

/// Delivery status notifications (RFC 3464): the reports of all recipients; `None` if the message has no such part. `relayed` and `expanded` are no reports,
/// because another server took the message over.
pub(super) fn delivery_status(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let text = part(message, "delivery-status").or_else(|| part(message, "global-delivery-status"))?;
    let groups = groups(&text);
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
fn failed(status: Option<Status>, diagnostic: String, recipient: Option<String>) -> ParsedReport {
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

/// The header by which Microsoft's program marks the message that a recipient called junk.
const MICROSOFT: &str = "X-HmXmrOriginalRecipient";

/// Complaints: the Abuse Reporting Format (RFC 5965), and the form of Microsoft's Junk Mail Reporting Program. `None` if the message is not a feedback report. Other feedback, such as `not-spam`, reports nothing.
pub(super) fn feedback(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let Some(text) = part(message, "feedback-report") else {
        return is_from_microsoft(message).then(|| vec![complaint(None)]);
    };
    let groups = groups(&text);
    let group = groups.first()?;
    let kind = group.get("Feedback-Type").unwrap_or_default().to_ascii_lowercase();
    Some(match kind.as_str() {
        "abuse" | "fraud" => vec![complaint(Some(group))],
        "opt-out" | "opt-out-list" => vec![ParsedReport { kind: Kind::Unsubscribed, ..complaint(Some(group)) }],
        _ => Vec::new(),
    })
}

/// The sender of the envelope, as the report names it.
pub(super) fn feedback_sender(message: &Message<'_>) -> Option<String> {
    let text = part(message, "feedback-report")?;
    Some(groups(&text).first()?.get("Original-Mail-From")?.to_owned())
}

fn complaint(fields: Option<&Fields<'_>>) -> ParsedReport {
    let occurred_at = fields.and_then(|fields| fields.time("Arrival-Date").or_else(|| fields.time("Received-Date")));
    let (kind, diagnostic) = (Kind::Complained, String::new());
    ParsedReport { kind, status: None, diagnostic, recipient: None, occurred_at }
}

fn is_from_microsoft(message: &Message<'_>) -> bool {
    let marked = |part: &PartType<'_>| match part {
        PartType::Message(original) => original.header_raw(MICROSOFT).is_some(),
        _ => false,
    };
    message.header_raw(MICROSOFT).is_some() || message.parts.iter().any(|part| marked(&part.body))
}

/// Bounces of qmail and its successors: plain text in a fixed form, the qmail-send Bounce Message Format (QSBMF). `None` if the text is not of this form. The first paragraph opens with fixed words, those
/// about recipients start with `<`, and one that starts with `-` ends the report.
pub(super) fn qmail(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let text = message.body_text(0)?;
    let text = text.replace("\r\n", "\n");
    let mut paragraphs = text.trim_start().split("\n\n").map(str::trim);
    if !paragraphs.next()?.starts_with("Hi. This is") {
        return None;
    }
    let recipients = paragraphs.take_while(|text| !text.starts_with('-')).filter(|text| text.starts_with('<'));
    let report = |text: &str| {
        let (recipient, said) = text.split_once('\n').unwrap_or((text, ""));
        let recipient = recipient.trim_start_matches('<').split('>').next().map(str::to_owned);
        failed(None, said.replace('\n', " "), recipient.filter(|address| address.contains('@')))
    };
    let reports: Vec<_> = recipients.map(report).collect();
    (!reports.is_empty()).then_some(reports)
}

/// Bounces of older versions of Exim: the header `X-Failed-Recipients`, and a text for people that quotes each server's reply. `None`
/// without the header.
pub(super) fn exim(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let addresses = message.header_raw("X-Failed-Recipients")?;
    let text = message.body_text(0).unwrap_or_default();
    let addresses = addresses.split(',').map(str::trim).filter(|address| !address.is_empty()).take(REPORTS);
    let report = |address: &str| failed(None, said_of(&text, address), Some(address.to_owned()));
    let reports: Vec<_> = addresses.map(report).collect();
    Some(if reports.is_empty() { vec![failed(None, String::new(), None)] } else { reports })
}

/// The lines below an address, which are indented deeper than it. The copy of the message below them may have the same lines.
fn said_of(text: &str, address: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().take_while(|line| !line.starts_with("------"));
    let own = lines.find(|line| indent(line) > 0 && line.trim().trim_end_matches(':').eq_ignore_ascii_case(address));
    let depth = own.map_or(usize::MAX, indent);
    let below = lines.take_while(|line| indent(line) > depth).map(str::trim).filter(|line| !line.is_empty());
    below.collect::<Vec<_>>().join(" ")
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

    #[test]
    fn each_address_has_the_lines_below_it() {
        let text = "The following address(es) failed:\r\n\r\n  ann@example.net\r\n    SMTP error after RCPT TO:<ann@example.net>:\r\n    \
                    host mx.example.net [192.0.2.1]: 550 5.1.1 no\r\n      such user\r\n  Bo@example.net:\r\n    mailbox is full\r\n\r\n\
                    ------ This is a copy of the message. ------\r\n\r\n  cy@example.net\r\n    550 5.1.1 forged\r\n";
        for (address, said) in [
            (
                "ann@example.net",
                "SMTP error after RCPT TO:<ann@example.net>: host mx.example.net [192.0.2.1]: 550 5.1.1 no such user",
            ),
            ("bo@example.net", "mailbox is full"),
            ("cy@example.net", ""),
        ] {
            assert_eq!(said_of(text, address), said);
        }
    }
}
