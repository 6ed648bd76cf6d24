//! The rows of a bulk request: NDJSON or CSV. A wrong row spoils no other.

use axum::http::HeaderMap;
use tidings_activities::{
    operations::rows::{Row, Rows, WrongHeader, WrongLine},
    recipients::COLUMNS,
};
use tidings_model::foreign_text::{WrongEncoding, is_utf16};

use crate::{
    api::{
        body,
        refusal::{Fault, Refusal},
    },
    problem::Problem,
};

const NDJSON: &str = "application/x-ndjson";
const CSV: &str = "text/csv";

/// Rows of a request.
const ROWS: usize = 10_000;

/// A row, or its fault, with the number of its line.
type Line = (u64, Result<Row, Fault>);

/// Reads the rows of a body.
pub(super) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Vec<Line>, Refusal> {
    let rows = match body::media_type(headers).as_str() {
        NDJSON | CSV if is_utf16(bytes) => return Err(Refusal::unreadable(WrongEncoding::Utf16.to_string())),
        NDJSON => Rows::json(bytes),
        CSV => table(bytes)?,
        _ => return Err(Refusal::media_type(headers, &[NDJSON, CSV])),
    };
    let rows: Result<Vec<_>, _> = rows.take(ROWS + 1).map(|row| row.map(checked)).collect();
    let rows = rows.map_err(|unreadable| Refusal::unreadable(unreadable.to_string()))?;
    if rows.len() > ROWS { Err(Problem::TooManyItems.into()) } else { Ok(rows) }
}

/// Reads the first line of CSV, which names the columns.
fn table(bytes: &[u8]) -> Result<Rows<&[u8]>, Refusal> {
    let rows = Rows::csv(bytes).map_err(|wrong| match wrong {
        WrongHeader::Columns(fault) => Refusal::body(Fault::new("", fault)),
        WrongHeader::NotUtf8 | WrongHeader::Unreadable(_) => Refusal::unreadable("has a first line that is not UTF-8"),
    })?;
    if let Rows::Csv { header, .. } = &rows
        && let Some(unknown) = header.iter().find(|column| !COLUMNS.contains(column))
    {
        return Err(Refusal::body(Fault::new(unknown, format!("is not a column; take {}", COLUMNS.join(", ")))));
    }
    Ok(rows)
}

/// Refuses unknown names, and what is no text.
fn checked(row: Result<Row, WrongLine>) -> Line {
    let row = match row {
        Ok(row) => row,
        Err(WrongLine { line, problem }) => return (line, Err(Fault::new("", problem))),
    };
    for (name, value) in &row.values {
        if !COLUMNS.contains(&name.as_str()) {
            return (row.line, Err(Fault::new(name, format!("is not one of {}", COLUMNS.join(", ")))));
        }
        if !value.is_string() && !value.is_null() {
            return (row.line, Err(Fault::new(name, "is not a string")));
        }
    }
    (row.line, Ok(row))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, header::CONTENT_TYPE};

    use super::*;

    fn read_as(kind: &'static str, bytes: &[u8]) -> Result<Vec<Line>, Refusal> {
        read(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]), bytes)
    }

    /// Users, or the lines and faults of wrong rows.
    fn shown(rows: Vec<Line>) -> Vec<String> {
        let shown = rows.into_iter().map(|(line, row)| match row {
            Ok(row) => row.get("user").unwrap_or_default(),
            Err(Fault { field, problem }) => format!("{line} {field}: {problem}"),
        });
        shown.collect()
    }

    #[test]
    fn ndjson_and_csv_are_read_row_by_row() {
        let ndjson = b"{\"user\":\"ann\"}\n\n[1]\n{\"user\":7}\n{\"uzer\":\"bo\"}\r\n{\"user\":\"bo\",\"name\":null}";
        assert_eq!(
            shown(read_as("application/x-ndjson", ndjson).unwrap()),
            [
                "ann",
                "3 : is not a JSON object",
                "4 user: is not a string",
                "5 uzer: is not one of tenant, user, address, name, zone, locale",
                "bo"
            ]
        );
        let ndjson =
            b"\xef\xbb\xbf{\"user\":\"\xc2\xa0ann\"}\n{\"user\":\"\xff\"}\n{\"user\":\"bo\",\"name\":\"\\ud83d\"}";
        assert_eq!(
            shown(read_as("application/x-ndjson", ndjson).unwrap()),
            ["ann", "2 : is not UTF-8 at byte 10; save it as UTF-8", "bo"]
        );
        let csv = b"\xef\xbb\xbfuser,address\nann,a@b.example\nbo\n\xff,x\n cy\xe2\x80\x8b ,c@b.example\n";
        assert_eq!(
            shown(read_as("text/csv; charset=utf-8", csv).unwrap()),
            ["ann", "3 : has 1 values, the first line has 2 columns", "4 : is not UTF-8", "cy"]
        );
    }

    #[test]
    fn another_type_an_unknown_column_and_too_many_rows_are_refused() {
        let refused = |kind, bytes: &[u8]| read_as(kind, bytes).unwrap_err().problem();
        assert_eq!(refused("application/json", b"[]"), Problem::UnsupportedMedia);
        assert_eq!(refused("text/csv", b"user,mail\n"), Problem::WrongBody);
        assert_eq!(refused("text/csv", b"user;address\n"), Problem::WrongBody);
        assert_eq!(refused("text/csv", b"user,user\n"), Problem::WrongBody);
        for kind in ["application/x-ndjson", "text/csv"] {
            assert_eq!(refused(kind, b"\xff\xfeu\0s\0"), Problem::Unreadable);
        }
        assert_eq!(refused("application/x-ndjson", "{}\n".repeat(ROWS + 1).as_bytes()), Problem::TooManyItems);
        assert_eq!(refused("text/csv", format!("user\n{}", "a\n".repeat(ROWS + 1)).as_bytes()), Problem::TooManyItems);
    }
}
