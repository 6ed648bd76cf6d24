//! Messages that come back: bounces (RFC 3464), complaints (RFC 5965) and automatic replies, as pure functions of their bytes.
//!
//! Anybody may send such a message, so the reader only collects what the message says. A caller believes a token that our keys
//! signed, and nothing else.

use mail_parser::{HeaderValue, Message, MessageParser, MimeHeaders as _, PartType};
use tidings_model::link_keys::Token;

mod forms;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Content, ParsedReport, Returned};

use crate::mime::TOKEN_HEADER;

/// Bytes of a message that are read. The parts of a report come before the returned message, and later bytes say nothing.
pub const MESSAGE_BYTES: usize = 10 * 1024 * 1024;
/// Headers `Content-Type` in a message. They bound the depth of its parts; a report about one message has about five.
const PARTS: usize = 200;
/// Reports in one message. A message of ours has one recipient, who may be a small group elsewhere.
const REPORTS: usize = 20;
/// Tokens in one message.
const TOKENS: usize = 20;
/// Headers with the address that a message came to.
const RECIPIENTS: [&str; 5] = ["X-Original-To", "Delivered-To", "Envelope-To", "Resent-To", "To"];

/// Reads a message. Any bytes are read without harm.
#[must_use]
pub fn read(bytes: &[u8]) -> Returned {
    let bytes = bytes.get(..MESSAGE_BYTES).unwrap_or(bytes);
    if has_too_many_parts(bytes) {
        return Returned::default();
    }
    let Some(message) = MessageParser::default().parse(bytes) else { return Returned::default() };
    let original = original(&message);
    let content = content(&message);
    let mut tokens = tokens(&message, &RECIPIENTS);
    tokens.extend(forms::feedback_sender(&message).iter().flat_map(|sender| Token::find(sender)));
    let Some(original) = original else { return Returned { tokens, content, ..Returned::default() } };
    tokens.extend(self::tokens(&original, &[TOKEN_HEADER, "Return-Path"]));
    tokens.truncate(TOKENS);
    let message = original.header_raw("X-Tidings-Message").and_then(|id| id.trim().parse().ok());
    Returned { tokens, message, message_id: original.message_id().map(str::to_owned), content }
}

/// Refuses a message with more parts than a report has, before any of them is parsed.
fn has_too_many_parts(bytes: &[u8]) -> bool {
    let name = b"content-type";
    bytes.windows(name.len()).filter(|window| window.eq_ignore_ascii_case(name)).take(PARTS + 1).count() > PARTS
}

/// Decides on the kind. A report may also call itself an automatic reply, as those of Postfix do.
fn content(message: &Message<'_>) -> Content {
    let date = message.date().and_then(report::timestamp);
    let found = [forms::delivery_status, forms::feedback, forms::qmail, forms::exim];
    let mut found = found.into_iter().filter_map(|reports| reports(message));
    let Some(mut reports) = found.next() else {
        return if is_auto_reply(message) { Content::AutoReply } else { Content::Unrecognized };
    };
    if reports.is_empty() {
        return Content::NoNews;
    }
    reports.truncate(REPORTS);
    for report in &mut reports {
        report.occurred_at = report.occurred_at.or(date);
    }
    Content::Reports(reports)
}

/// Recognizes RFC 3834 and the headers that servers used before.
fn is_auto_reply(message: &Message<'_>) -> bool {
    let says = |name: &str, words: &[&str]| {
        let value = message.header_raw(name).unwrap_or_default().trim().to_ascii_lowercase();
        words.iter().any(|word| value.starts_with(word))
    };
    says("Auto-Submitted", &["auto-"])
        || says("Precedence", &["auto_reply", "auto-reply"])
        || ["X-Autoreply", "X-Autorespond", "X-Autoresponder"].iter().any(|name| message.header_raw(*name).is_some())
}

/// Finds the message that comes back, or its headers.
fn original<'x>(message: &'x Message<'x>) -> Option<Message<'x>> {
    message.parts.iter().find_map(|part| match &part.body {
        PartType::Message(original) => Some(original.clone()),
        _ if report::is_type(part.content_type(), "rfc822-headers") => {
            MessageParser::default().parse_headers(part.contents())
        }
        _ => None,
    })
}

fn tokens(message: &Message<'_>, names: &[&str]) -> Vec<Token> {
    let values = names.iter().flat_map(|name| message.header_values(*name).map(text).collect::<Vec<_>>());
    values.flat_map(|value| Token::find(&value).take(TOKENS).collect::<Vec<_>>()).take(TOKENS).collect()
}

/// The words of a header, whatever its structure.
fn text(value: &HeaderValue<'_>) -> String {
    match value {
        HeaderValue::Text(text) => text.to_string(),
        HeaderValue::TextList(list) => list.join(" "),
        HeaderValue::Address(addresses) => {
            addresses.iter().filter_map(|address| address.address()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}
