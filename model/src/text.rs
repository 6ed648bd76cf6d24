//! Texts: of others, made fit for logs, the ledger and answers; hashes; names that were meant; headers of CSV.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::{foreign_text::cut_text, limits};

// One line without addresses.

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

// Bytes and hashes as text.

/// Two lower-case digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of these bytes, in hex.
#[must_use]
pub fn hex_sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

// Suggestions for a misspelt name.

/// Returns the known name that the word most resembles, if any comes close.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word comes close to no name, and to compare takes length times length.
    if word.len() > limits::ID_BYTES {
        return None;
    }
    let likeness = |name: &str| strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase());
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

// The first line of a CSV file, which names its columns. Spreadsheets of many countries write another separator than a comma.

/// Separators that programs write in place of a comma: Excel where the comma is in decimals, and what is pasted from a spreadsheet.
const SEPARATORS: [(char, &str); 3] = [(';', "semicolons"), ('\t', "tabs"), ('|', "bars")];

/// Finds out why the rows behind a first line could not be told apart: another separator, or two columns of one name.
#[must_use]
pub fn header_fault<'a>(columns: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let columns: Vec<_> = columns.into_iter().collect();
    if let [line] = columns[..]
        && let Some((_, separator)) = SEPARATORS.into_iter().find(|(c, _)| line.contains(*c))
    {
        return Some(format!(
            "the first line has {separator} between its columns; save the file with commas (CSV, RFC 4180)"
        ));
    }
    let mut seen = BTreeSet::new();
    let repeated = columns.into_iter().find(|column| !column.is_empty() && !seen.insert(*column))?;
    Some(format!("column {repeated:?} is there twice; leave one of them out"))
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
    #[test]
    fn another_separator_and_a_column_that_is_there_twice_are_named() {
        for (columns, says) in [
            (&["tenant;user;address"][..], Some("semicolons")),
            (&["tenant\tuser"], Some("tabs")),
            (&["user", "name", "user"], Some("column \"user\" is there twice")),
            (&["user", "", ""], None),
            (&["user"], None),
        ] {
            let fault = header_fault(columns.iter().copied());
            match says {
                Some(says) => assert!(fault.unwrap().contains(says), "{columns:?}"),
                None => assert_eq!(fault, None),
            }
        }
    }
}
