//! The first line of a CSV file, which names its columns. Spreadsheets of many countries write another separator than a comma.

use std::collections::BTreeSet;

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
