//! Records of CSV files and of NDJSON: each is a line with named values.

use std::io::{BufRead, Split};

use anyhow::Context as _;
use serde_json::{Map, Value};
use tidings_model::{
    foreign_text::{clean_edges, read_text},
    wire,
};

use crate::{
    csv_table::{Row, Table},
    error::Usage,
    line_input::Rejection,
};

/// The records of a file.
pub(crate) enum Records {
    Csv(Table<Box<dyn BufRead + Send>>),
    Json { first: Option<Vec<u8>>, lines: Split<Box<dyn BufRead + Send>>, number: u64 },
}

/// One record.
pub(crate) struct Record {
    /// Counted from 1.
    pub line: u64,
    values: Values,
}

enum Values {
    Csv(Row),
    Json(Map<String, Value>),
}

impl Records {
    /// Reads the first line. NDJSON begins with `{`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(mut input: Box<dyn BufRead + Send>) -> anyhow::Result<Self> {
        let head = input.fill_buf().context("the first line cannot be read")?;
        if head.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Ok(Self::Csv(Table::of_any_columns(input)?));
        }
        let mut lines = input.split(b'\n');
        let first = lines.next().transpose().context("the first line cannot be read")?;
        Ok(Self::Json { first, lines, number: 0 })
    }

    /// The names of the values: those of the first line.
    ///
    /// # Errors
    /// The first line of NDJSON is not a JSON object.
    pub fn columns(&self) -> Result<Vec<String>, Usage> {
        match self {
            Self::Csv(table) => Ok(table.columns()),
            Self::Json { first, .. } => {
                let object = object(1, first.as_deref().unwrap_or_default());
                let object = object.map_err(|refused| Usage(format!("line 1: {}", refused.problem)))?;
                Ok(object.keys().cloned().collect())
            }
        }
    }

    /// The next record, or why the line is none; an error when nothing more can be read.
    pub fn next(&mut self) -> Option<anyhow::Result<Result<Record, Rejection>>> {
        match self {
            Self::Csv(table) => {
                table.next().map(|row| Ok(row?.map(|row| Record { line: row.line, values: Values::Csv(row) })))
            }
            Self::Json { first, lines, number } => loop {
                let line = match first.take().map(Ok).or_else(|| lines.next())? {
                    Ok(line) => line,
                    Err(error) => {
                        return Some(Err(error).with_context(|| format!("line {} cannot be read", *number + 1)));
                    }
                };
                *number += 1;
                if !line.trim_ascii().is_empty() {
                    let values = object(*number, &line).map(Values::Json);
                    return Some(Ok(values.map(|values| Record { line: *number, values })));
                }
            },
        }
    }
}

impl Record {
    /// Returns the value with this name as text; empty without one.
    pub fn value(&self, name: &str) -> String {
        match &self.values {
            Values::Csv(row) => row.value(name),
            Values::Json(object) => match object.get(name) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => clean_edges(text).to_owned(),
                Some(other) => other.to_string(),
            },
        }
    }
}

/// A line of another encoding is refused by itself. Half a surrogate pair, in the name of somebody, becomes U+FFFD.
fn object(line: u64, json: &[u8]) -> Result<Map<String, Value>, Rejection> {
    let text = read_text(json).map_err(|wrong| Rejection::new(line, "", &wrong.to_string()))?;
    serde_json::from_slice(&wire::mended(text.as_bytes()))
        .map_err(|_| Rejection::new(line, "", "is not a JSON object; write one object a line (NDJSON)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<Result<(u64, String), String>>;

    fn read(text: &'static [u8]) -> (Vec<String>, Rows) {
        let mut records = Records::open(Box::new(text)).unwrap();
        let columns = records.columns().unwrap();
        let next = || {
            records.next().map(|record| {
                record.unwrap().map(|record| (record.line, record.value("a"))).map_err(|rejection| rejection.problem)
            })
        };
        (columns, std::iter::from_fn(next).collect())
    }

    #[test]
    fn csv_and_ndjson_are_told_apart_by_their_first_byte() {
        let (columns, rows) = read(b"a,b\n1,2\n3,4\n");
        assert_eq!(columns, ["a", "b"]);
        assert_eq!(rows, [Ok((2, "1".to_owned())), Ok((3, "3".to_owned()))]);
        let (columns, rows) = read(b"{\"a\":1,\"b\":null}\n\n{\"a\":\" x \"}\n[1]\n{\"b\":2}\n");
        assert_eq!(columns, ["a", "b"]);
        let problem = "is not a JSON object; write one object a line (NDJSON)".to_owned();
        assert_eq!(rows, [Ok((1, "1".to_owned())), Ok((3, "x".to_owned())), Err(problem), Ok((5, String::new()))]);
    }

    #[test]
    fn a_line_of_other_bytes_spoils_no_other() {
        let (_, rows) =
            read(b"{\"a\":\"\\ud83d\"}\n{\"a\":\"f\xfcr\"}\r\n\xef\xbb\xbf{\"a\":\"\xc2\xa0x\xe2\x80\x8b\"}\n");
        let problem = "is not UTF-8 at byte 8; save it as UTF-8".to_owned();
        assert_eq!(rows, [Ok((1, "\u{fffd}".to_owned())), Err(problem), Ok((3, "x".to_owned()))]);
    }
}
