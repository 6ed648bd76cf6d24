//! Text of others made fit for logs, the ledger and answers: one line without addresses.

use crate::foreign_text::cut_text;

/// Characters of a reply's text that are kept.
const TEXT_CHARS: usize = 300;

/// Replaces whatever could be an address, joins white space, and cuts.
#[must_use]
pub fn presentable(text: &str) -> String {
    cut_text(&without_addresses(text), TEXT_CHARS).to_owned()
}

/// Replaces whatever could be an address, and joins white space.
#[must_use]
pub fn without_addresses(text: &str) -> String {
    let text = without_quoted_local_parts(text);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.map(without_address).collect::<Vec<_>>().join(" ")
}

/// Takes the quoted local part out of each address, which may have spaces: `"john smith"@example.net`. The rest is an address still.
fn without_quoted_local_parts(text: &str) -> String {
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(end) = rest.find("\"@") {
        let (before, address) = rest.split_at(end);
        let mut quotes = before.rmatch_indices('"').map(|(at, _)| at);
        let opening = quotes.find(|at| !before[..*at].ends_with('\\'));
        clean.push_str(&before[..opening.unwrap_or(end)]);
        rest = &address[1..];
    }
    clean + rest
}

/// Everything between the brackets, quotes and commas around an `@` goes, so that no part of an address stays.
fn without_address(word: &str) -> String {
    const AROUND: &[char] = &['<', '>', '(', ')', '[', ']', '"', '\'', ',', ';', ':'];
    let mut clean = String::with_capacity(word.len());
    for piece in word.split_inclusive(AROUND) {
        let (piece, delimiter) = piece.split_at(piece.trim_end_matches(AROUND).len());
        let is_address = piece.contains('@') || piece.contains("%40");
        clean.push_str(if is_address { "<address>" } else { piece });
        clean.push_str(delimiter);
    }
    clean.replace("<<address>>", "<address>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_address_stays() {
        for (text, clean) in [
            ("550 <ann@example.net>: unknown", "550 <address>: unknown"),
            ("550 \"john smith\"@example.net unknown", "550 <address> unknown"),
            ("550 <\"a\\\" b\"@example.net>, \"x\"@y", "550 <address>, <address>"),
            ("550 smith\"@example.net", "550 <address>"),
            ("550 \"no\" at all", "550 \"no\" at all"),
        ] {
            assert_eq!(without_addresses(text), clean);
        }
    }
}
