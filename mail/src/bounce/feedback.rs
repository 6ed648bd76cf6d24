//! Complaints: the Abuse Reporting Format (RFC 5965), and the form of Microsoft's Junk Mail Reporting Program.

use mail_parser::{Message, PartType};
use tidings_model::delivery_events::Kind;

use super::{
    fields::{self, Fields},
    report::ParsedReport,
};

/// The header by which Microsoft's program marks the message that a recipient called junk.
const MICROSOFT: &str = "X-HmXmrOriginalRecipient";

/// Returns the complaint; `None` if the message is not a feedback report. Other feedback, such as `not-spam`, reports nothing.
pub(super) fn reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let Some(text) = fields::part(message, "feedback-report") else {
        return is_from_microsoft(message).then(|| vec![complaint(None)]);
    };
    let groups = fields::groups(&text);
    let group = groups.first()?;
    let kind = group.get("Feedback-Type").unwrap_or_default().to_ascii_lowercase();
    Some(match kind.as_str() {
        "abuse" | "fraud" => vec![complaint(Some(group))],
        "opt-out" | "opt-out-list" => vec![ParsedReport { kind: Kind::Unsubscribed, ..complaint(Some(group)) }],
        _ => Vec::new(),
    })
}

/// The sender of the envelope, as the report names it.
pub(super) fn sender(message: &Message<'_>) -> Option<String> {
    let text = fields::part(message, "feedback-report")?;
    Some(fields::groups(&text).first()?.get("Original-Mail-From")?.to_owned())
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
