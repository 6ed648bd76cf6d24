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
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.map(without_address).collect::<Vec<_>>().join(" ")
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
