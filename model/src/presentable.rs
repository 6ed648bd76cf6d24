//! Server replies made fit for logs and the ledger: one line without addresses.

/// Characters of a reply's text that are kept.
const TEXT_CHARS: usize = 300;

/// Replaces whatever could be an address, joins white space, and cuts.
#[must_use]
pub fn presentable(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let text = words.map(without_address).collect::<Vec<_>>().join(" ");
    text.chars().take(TEXT_CHARS).collect()
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
