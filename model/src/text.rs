//! Makes foreign text safe for logs, the ledger and responses; hashes; suggests names; checks CSV headers.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::{foreign_text::cut_text, limits};

const TEXT_CHARS: usize = 300;

/// Masks anything that could be an address, collapses white space, and truncates.
#[must_use]
pub fn presentable(text: &str) -> String {
    cut_text(&without_addresses(text), TEXT_CHARS).to_owned()
}

#[must_use]
pub fn without_addresses(text: &str) -> String {
    let text = without_quoted_local_parts(text);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.map(without_address).collect::<Vec<_>>().join(" ")
}

/// Quoted local parts may contain spaces: `"john smith"@example.net`. The rest still looks like an address.
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

/// Masks everything between the brackets, quotes or commas around an `@`, so no part of an address remains.
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

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[must_use]
pub fn hex_sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[must_use]
pub fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Too long to be close to any name; the comparison takes quadratic time.
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

// The header line of a CSV file. Note that spreadsheets in many countries write another separator than a
// comma.

/// Used instead of a comma, e.g. by Excel where a comma separates decimals, or when pasting from a
/// spreadsheet.
const SEPARATORS: [(char, &str); 3] = [(';', "semicolons"), ('\t', "tabs"), ('|', "bars")];

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
