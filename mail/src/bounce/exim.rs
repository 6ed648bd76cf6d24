//! Bounces of older versions of Exim: the header `X-Failed-Recipients`, and a text for people that quotes each server's reply.

use mail_parser::Message;

use super::{REPORTS, delivery_status::failed, report::ParsedReport};

/// Returns a report for each address of the header; `None` without the header.
pub(super) fn reports(message: &Message<'_>) -> Option<Vec<ParsedReport>> {
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
