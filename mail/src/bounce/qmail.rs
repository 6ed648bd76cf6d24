//! Bounces of qmail and its successors: plain text in a fixed form, the qmail-send Bounce Message Format (QSBMF).

use mail_parser::Message;

use super::{delivery_status::failed, report::ParsedReport};

/// Returns a report for each recipient; `None` if the text is not of this form. The first paragraph opens with fixed words, those
/// about recipients start with `<`, and one that starts with `-` ends the report.
pub(super) fn reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
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
