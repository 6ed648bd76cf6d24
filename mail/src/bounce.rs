//! Parses returned messages: bounces (RFC 3464), complaints (RFC 5965) and automatic replies, as pure
//! functions.
//!
//! Anybody can send such a message, so this only collects its claims. Callers should trust nothing but a
//! token signed by our own keys.

use jiff::Timestamp;
use mail_parser::{ContentType, DateTime, HeaderValue, Message, MessageParser, MimeHeaders as _, PartType};
use tidings_model::{
    delivery_events::{BounceKind, EnhancedStatus, ReportKind, proven_status},
    link_keys::EmailToken,
};
use uuid::Uuid;

use crate::mime::TOKEN_HEADER;

#[cfg(test)]
mod tests;

/// A report's parts come before the returned message, so later bytes add nothing.
pub const MESSAGE_BYTES: usize = 10 * 1024 * 1024;
/// Bounds how deeply parts nest; a report about one message has about five.
const PARTS: usize = 200;
/// Our messages have one recipient, but this may be a small group elsewhere.
const REPORTS: usize = 20;
const TOKENS: usize = 20;
const RECIPIENTS: [&str; 5] = ["X-Original-To", "Delivered-To", "Envelope-To", "Resent-To", "To"];

/// Accepts any bytes without panicking.
#[must_use]
pub fn parse_bounce(bytes: &[u8]) -> ReturnedMessage {
    let bytes = bytes.get(..MESSAGE_BYTES).unwrap_or(bytes);
    if has_too_many_parts(bytes) {
        return ReturnedMessage::default();
    }
    let Some(message) = MessageParser::default().parse(bytes) else { return ReturnedMessage::default() };
    let original = find_original(&message);
    let content = classify_content(&message);
    let mut tokens = find_tokens(&message, &RECIPIENTS);
    tokens.extend(feedback_sender(&message).iter().flat_map(|sender| EmailToken::find_tokens(sender)));
    let Some(original) = original else { return ReturnedMessage { tokens, content, ..ReturnedMessage::default() } };
    tokens.extend(self::find_tokens(&original, &[TOKEN_HEADER, "Return-Path"]));
    tokens.truncate(TOKENS);
    let message = original.header_raw("X-Tidings-Message").and_then(|id| id.trim().parse().ok());
    ReturnedMessage { tokens, message, message_id: original.message_id().map(str::to_owned), content }
}

fn has_too_many_parts(bytes: &[u8]) -> bool {
    let name = b"content-type";
    bytes.windows(name.len()).filter(|window| window.eq_ignore_ascii_case(name)).take(PARTS + 1).count() > PARTS
}

/// Reports take precedence, because e.g. Postfix also marks its reports as automatic replies.
fn classify_content(message: &Message<'_>) -> ReturnedContent {
    let date = message.date().and_then(timestamp);
    let found = [delivery_status, feedback_reports, qmail_reports, exim_reports];
    let mut found = found.into_iter().filter_map(|reports| reports(message));
    let Some(mut reports) = found.next() else {
        return if is_auto_reply(message) { ReturnedContent::AutoReply } else { ReturnedContent::Unrecognized };
    };
    if reports.is_empty() {
        return ReturnedContent::NoNews;
    }
    reports.truncate(REPORTS);
    for report in &mut reports {
        report.occurred_at = report.occurred_at.or(date);
    }
    ReturnedContent::Reports(reports)
}

/// Checks `Auto-Submitted` (RFC 3834) and the older headers.
fn is_auto_reply(message: &Message<'_>) -> bool {
    let says = |name: &str, words: &[&str]| {
        let value = message.header_raw(name).unwrap_or_default().trim().to_ascii_lowercase();
        words.iter().any(|word| value.starts_with(word))
    };
    says("Auto-Submitted", &["auto-"])
        || says("Precedence", &["auto_reply", "auto-reply"])
        || ["X-Autoreply", "X-Autorespond", "X-Autoresponder"].iter().any(|name| message.header_raw(*name).is_some())
}

fn find_original<'x>(message: &'x Message<'x>) -> Option<Message<'x>> {
    message.parts.iter().find_map(|part| match &part.body {
        PartType::Message(original) => Some(original.clone()),
        _ if is_type(part.content_type(), "rfc822-headers") => MessageParser::default().parse_headers(part.contents()),
        _ => None,
    })
}

fn find_tokens(message: &Message<'_>, names: &[&str]) -> Vec<EmailToken> {
    let values = names.iter().flat_map(|name| message.header_values(*name).map(header_text).collect::<Vec<_>>());
    values.flat_map(|value| EmailToken::find_tokens(&value).take(TOKENS).collect::<Vec<_>>()).take(TOKENS).collect()
}

fn header_text(value: &HeaderValue<'_>) -> String {
    match value {
        HeaderValue::Text(text) => text.to_string(),
        HeaderValue::TextList(list) => list.join(" "),
        HeaderValue::Address(addresses) => {
            addresses.iter().filter_map(|address| address.address()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

// Report formats. Each function returns `None` if the message has another format.

/// Delivery status notifications (RFC 3464), one report per recipient. Skips `relayed` and `expanded`,
/// because another server took over.
fn delivery_status(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let text = part_text(message, "delivery-status").or_else(|| part_text(message, "global-delivery-status"))?;
    let groups = groups(&text);
    // The first group describes the message; each later one describes a recipient.
    let recipients = groups.iter().filter(|group| group.get("Final-Recipient").or(group.get("Action")).is_some());
    Some(recipients.filter_map(recipient_report).collect())
}

fn recipient_report(fields: &ReportFields<'_>) -> Option<ParsedReport> {
    let diagnostic = fields.typed("Diagnostic-Code").unwrap_or_default().to_owned();
    let status = fields.get("Status").and_then(|status| status.split_whitespace().next()?.parse().ok());
    let action = fields.get("Action").and_then(|action| action.split_whitespace().next()).unwrap_or_default();
    let kind = kind(&action.to_ascii_lowercase(), status, &diagnostic)?;
    let status = proven_status(status, &diagnostic);
    let occurred_at = fields.time("Last-Attempt-Date");
    Some(ParsedReport { kind, status, diagnostic, recipient: recipient(fields), occurred_at })
}

/// For a group member, sendmail puts the group's address first and the member in `X-Actual-Recipient`. Skips
/// names without a domain, e.g. Unix users.
fn recipient(fields: &ReportFields<'_>) -> Option<String> {
    let address = |name| fields.typed(name).filter(|address| address.contains('@')).map(str::to_owned);
    ["X-Actual-Recipient", "Final-Recipient", "Original-Recipient"].into_iter().find_map(address)
}

fn failure_report(status: Option<EnhancedStatus>, diagnostic: String, recipient: Option<String>) -> ParsedReport {
    let kind = ReportKind::Bounced(bounce(status, &diagnostic));
    let status = proven_status(status, &diagnostic);
    ParsedReport { kind, status, diagnostic, recipient, occurred_at: None }
}

fn kind(action: &str, status: Option<EnhancedStatus>, diagnostic: &str) -> Option<ReportKind> {
    let class = proven_status(status, diagnostic).map(|EnhancedStatus(class, ..)| class);
    match (action, class) {
        ("failed", _) | ("", Some(5)) => Some(ReportKind::Bounced(bounce(status, diagnostic))),
        ("delayed", _) | ("", Some(4)) => Some(ReportKind::Deferred),
        ("delivered", _) | ("", Some(2)) => Some(ReportKind::Delivered),
        _ => None,
    }
}

/// Hard only if the evidence shows a missing address, as for a reply to RCPT (docs/delivery.md). Any other
/// failure may be temporary: an expired message, a full mailbox, an unknown reason.
fn bounce(status: Option<EnhancedStatus>, diagnostic: &str) -> BounceKind {
    let is_missing = proven_status(status, diagnostic).is_some_and(EnhancedStatus::is_missing_address);
    if is_missing { BounceKind::Hard } else { BounceKind::Soft }.with_evidence(status, diagnostic)
}

/// Microsoft adds this header to messages that a recipient marked as junk.
const MICROSOFT: &str = "X-HmXmrOriginalRecipient";

/// Complaints in the Abuse Reporting Format (RFC 5965) and from Microsoft's Junk Mail Reporting Program, but
/// not other feedback, e.g. `not-spam`.
fn feedback_reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let Some(text) = part_text(message, "feedback-report") else {
        return is_from_microsoft(message).then(|| vec![complaint(None)]);
    };
    let groups = groups(&text);
    let group = groups.first()?;
    let kind = group.get("Feedback-Type").unwrap_or_default().to_ascii_lowercase();
    Some(match kind.as_str() {
        "abuse" | "fraud" => vec![complaint(Some(group))],
        "opt-out" | "opt-out-list" => vec![ParsedReport { kind: ReportKind::Unsubscribed, ..complaint(Some(group)) }],
        _ => Vec::new(),
    })
}

fn feedback_sender(message: &Message<'_>) -> Option<String> {
    let text = part_text(message, "feedback-report")?;
    Some(groups(&text).first()?.get("Original-Mail-From")?.to_owned())
}

fn complaint(fields: Option<&ReportFields<'_>>) -> ParsedReport {
    let occurred_at = fields.and_then(|fields| fields.time("Arrival-Date").or_else(|| fields.time("Received-Date")));
    let (kind, diagnostic) = (ReportKind::Complained, String::new());
    ParsedReport { kind, status: None, diagnostic, recipient: None, occurred_at }
}

fn is_from_microsoft(message: &Message<'_>) -> bool {
    let marked = |part: &PartType<'_>| match part {
        PartType::Message(original) => original.header_raw(MICROSOFT).is_some(),
        _ => false,
    };
    message.header_raw(MICROSOFT).is_some() || message.parts.iter().any(|part| marked(&part.body))
}

/// Bounces by qmail and its successors, in the qmail-send Bounce Message Format (QSBMF): plain text with a
/// fixed opening paragraph. Paragraphs about recipients start with `<`, and one starting with `-` ends the
/// report.
fn qmail_reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
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
        failure_report(None, said.replace('\n', " "), recipient.filter(|address| address.contains('@')))
    };
    let reports: Vec<_> = recipients.map(report).collect();
    (!reports.is_empty()).then_some(reports)
}

/// Bounces by older versions of Exim: the header `X-Failed-Recipients`, and a human-readable text that quotes
/// each server's reply.
fn exim_reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
    let addresses = message.header_raw("X-Failed-Recipients")?;
    let text = message.body_text(0).unwrap_or_default();
    let addresses = addresses.split(',').map(str::trim).filter(|address| !address.is_empty()).take(REPORTS);
    let report = |address: &str| failure_report(None, said_of(&text, address), Some(address.to_owned()));
    let reports: Vec<_> = addresses.map(report).collect();
    Some(if reports.is_empty() { vec![failure_report(None, String::new(), None)] } else { reports })
}

/// The lines indented deeper than the address above them. Stops before the copy of the message, which may
/// contain the same lines.
fn said_of(text: &str, address: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().take_while(|line| !line.starts_with("------"));
    let own = lines.find(|line| indent(line) > 0 && line.trim().trim_end_matches(':').eq_ignore_ascii_case(address));
    let depth = own.map_or(usize::MAX, indent);
    let below = lines.take_while(|line| indent(line) > depth).map(str::trim).filter(|line| !line.is_empty());
    below.collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReturnedMessage {
    /// Unverified tokens from the delivery address first, then from the returned message.
    pub tokens: Vec<EmailToken>,
    pub message: Option<Uuid>,
    /// Without angle brackets.
    pub message_id: Option<String>,
    pub content: ReturnedContent,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReturnedContent {
    Reports(Vec<ParsedReport>),
    /// A report without consequences: a virus, a `not-spam` report, or one where another server took over.
    NoNews,
    /// Automatic reply (RFC 3834), e.g. out of the office or a challenge.
    AutoReply,
    #[default]
    Unrecognized,
}

/// Do not log this: may contain an email address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedReport {
    /// A bounce is only hard if the evidence shows a missing address.
    pub kind: ReportKind,
    /// From the report's status and the quoted reply together.
    pub status: Option<EnhancedStatus>,
    pub diagnostic: String,
    /// The affected address, if named. For a message to a group, this is the member.
    pub recipient: Option<String>,
    pub occurred_at: Option<Timestamp>,
}

/// One group of fields in a machine-readable part: `Name: value`, with an empty line between groups (RFC 3464
/// 2.1).
struct ReportFields<'a>(Vec<(&'a str, String)>);

impl ReportFields<'_> {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn typed(&self, name: &str) -> Option<&str> {
        let value = self.get(name)?;
        Some(value.split_once(';').map_or(value, |(_, value)| value.trim()))
    }

    pub fn time(&self, name: &str) -> Option<Timestamp> {
        timestamp(&DateTime::parse_rfc822(self.get(name)?)?)
    }
}

fn groups(text: &str) -> Vec<ReportFields<'_>> {
    let mut groups = vec![ReportFields(Vec::new())];
    for line in text.lines() {
        let Some(ReportFields(group)) = groups.last_mut() else { break };
        if line.trim().is_empty() {
            if !group.is_empty() {
                groups.push(ReportFields(Vec::new()));
            }
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = group.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            group.push((name.trim_end(), value.trim().to_owned()));
        }
    }
    groups.retain(|ReportFields(group)| !group.is_empty());
    groups
}

fn part_text(message: &Message<'_>, subtype: &str) -> Option<String> {
    let part = message.parts.iter().find(|part| is_type(part.content_type(), subtype))?;
    Some(String::from_utf8_lossy(part.contents()).into_owned())
}

fn is_type(content_type: Option<&ContentType<'_>>, subtype: &str) -> bool {
    content_type.and_then(ContentType::subtype).is_some_and(|own| own.eq_ignore_ascii_case(subtype))
}

fn timestamp(date: &DateTime) -> Option<Timestamp> {
    if !date.is_valid() {
        return None;
    }
    Timestamp::from_second(date.to_timestamp()).ok()
}
