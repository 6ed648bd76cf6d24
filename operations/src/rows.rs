//! Reads rows from CSV (RFC 4180) and NDJSON, for files and request bodies. A bad line does not affect others.

use std::io::{self, BufRead, Read as _};

use serde_json::{Map, Value};
use tidings_model::{
    foreign_text::{clean_edges, read_text},
    header_fault, wire,
};

pub enum InputRows<R> {
    Csv {
        reader: csv::Reader<R>,
        header: csv::StringRecord,
    },
    /// `first` is the line already read for its names.
    Json {
        lines: NumberedLines<R>,
        first: Option<(u64, Vec<u8>)>,
    },
}

#[derive(Debug)]
pub struct InputRow {
    pub line: u64,
    pub values: Map<String, Value>,
}

#[derive(Debug)]
pub struct WrongLine {
    pub line: u64,
    pub problem: String,
}

pub const NO_OBJECT: &str = "is not a JSON object";

#[derive(Debug, thiserror::Error)]
pub enum WrongHeader {
    #[error("the first line is not UTF-8; save the file as UTF-8")]
    NotUtf8,
    #[error("the first line cannot be read")]
    Unreadable(#[source] csv::Error),
    /// The separator is not a comma, or a column appears twice.
    #[error("{0}")]
    Columns(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RowReadError {
    #[error(transparent)]
    Csv(csv::Error),
    #[error("line {0} cannot be read")]
    Line(u64, #[source] io::Error),
}

pub type ParsedRow = Result<InputRow, WrongLine>;

impl<R: BufRead> InputRows<R> {
    /// # Errors
    /// If it cannot be read, is not separated by commas, or names a column twice.
    pub fn csv(input: R) -> Result<Self, WrongHeader> {
        let mut reader = csv::Reader::from_reader(input);
        let header: csv::StringRecord = match reader.headers() {
            Ok(header) => header.iter().map(clean_edges).collect(),
            Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => return Err(WrongHeader::NotUtf8),
            Err(error) => return Err(WrongHeader::Unreadable(error)),
        };
        match header_fault(&header) {
            Some(fault) => Err(WrongHeader::Columns(fault)),
            None => Ok(Self::Csv { reader, header }),
        }
    }

    #[must_use]
    pub const fn json(input: R) -> Self {
        Self::Json { lines: NumberedLines::new(input, usize::MAX), first: None }
    }

    /// Returns the column names, or for NDJSON the first line's names.
    ///
    /// # Errors
    /// If the first line cannot be read, or is not a JSON object.
    pub fn columns(&mut self) -> Result<Result<Vec<String>, WrongLine>, RowReadError> {
        match self {
            Self::Csv { header, .. } => Ok(Ok(header.iter().map(str::to_owned).collect())),
            Self::Json { lines, first } => {
                *first = lines.next().transpose()?;
                let line = first.as_ref().map_or(&[][..], |(_, line)| line);
                Ok(object(1, line).map(|row| row.values.into_iter().map(|(name, _)| name).collect()))
            }
        }
    }
}

impl<R: BufRead> Iterator for InputRows<R> {
    type Item = Result<ParsedRow, RowReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Csv { reader, header } => {
                let mut values = csv::StringRecord::new();
                match reader.read_record(&mut values) {
                    Ok(false) => None,
                    Ok(true) => {
                        let line = values.position().map_or(0, csv::Position::line);
                        let values = header.iter().map(str::to_owned).zip(values.iter().map(Value::from));
                        Some(Ok(Ok(InputRow { line, values: values.collect() })))
                    }
                    Err(error) => Some(wrong_line(error).map(Err)),
                }
            }
            Self::Json { lines, first } => loop {
                match first.take().map(Ok).or_else(|| lines.next())? {
                    Ok((_, line)) if line.trim_ascii().is_empty() => {}
                    line => return Some(line.map(|(number, line)| object(number, &line))),
                }
            },
        }
    }
}

impl InputRow {
    /// Returns the value as text, trimmed of invisible characters and empty for null. `None` if the row has
    /// no such value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        Some(match self.values.get(name)? {
            Value::Null => String::new(),
            Value::String(text) => clean_edges(text).to_owned(),
            other => other.to_string(),
        })
    }

    #[must_use]
    pub fn value(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }
}

fn wrong_line(error: csv::Error) -> Result<WrongLine, RowReadError> {
    let problem = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("has {len} values, the first line has {expected_len} columns")
        }
        csv::ErrorKind::Utf8 { .. } => "is not UTF-8".to_owned(),
        _ => return Err(RowReadError::Csv(error)),
    };
    match error.position() {
        Some(position) => Ok(WrongLine { line: position.line(), problem }),
        None => Err(RowReadError::Csv(error)),
    }
}

/// Rejects just this line if it is not UTF-8. Half a surrogate pair, e.g. in a person's name, becomes U+FFFD.
fn object(line: u64, json: &[u8]) -> ParsedRow {
    let text = read_text(json).map_err(|wrong| WrongLine { line, problem: wrong.to_string() })?;
    let values = serde_json::from_slice(&wire::repair_json(text.as_bytes()));
    let values = values.map_err(|_| WrongLine { line, problem: NO_OBJECT.to_owned() })?;
    Ok(InputRow { line, values })
}

/// Counts from 1. A line longer than `longest` is cut to `longest + 1` bytes, so the caller can detect it.
pub struct NumberedLines<R> {
    input: R,
    number: u64,
    longest: usize,
}

impl<R: BufRead> NumberedLines<R> {
    #[must_use]
    pub const fn new(input: R, longest: usize) -> Self {
        Self { input, number: 0, longest }
    }

    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let most = u64::try_from(self.longest.saturating_add(1)).unwrap_or(u64::MAX);
        if self.input.by_ref().take(most).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.len() > self.longest && line.last() != Some(&b'\n') {
            self.input.skip_until(b'\n')?;
        }
        Ok(Some(line))
    }
}

impl<R: BufRead> Iterator for NumberedLines<R> {
    type Item = Result<(u64, Vec<u8>), RowReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read_line().transpose()?;
        self.number += 1;
        Some(read.map(|line| (self.number, line)).map_err(|error| RowReadError::Line(self.number, error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_other_bytes_spoils_no_other() {
        let text = b"{\"a\":\"\\ud83d\"}\n{\"a\":\"f\xfcr\"}\r\n\xef\xbb\xbf{\"a\":\"\xc2\xa0x\xe2\x80\x8b\"}\n";
        let row = |row: ParsedRow| row.map(|row| (row.line, row.value("a"))).map_err(|wrong| wrong.problem);
        let rows: Vec<_> = InputRows::json(&text[..]).map(|line| row(line.unwrap())).collect();
        let problem = "is not UTF-8 at byte 8; save it as UTF-8".to_owned();
        assert_eq!(rows, [Ok((1, "\u{fffd}".to_owned())), Err(problem), Ok((3, "x".to_owned()))]);
    }

    #[test]
    fn a_row_of_another_length_is_refused_alone() {
        let mut rows = InputRows::csv("a,b\n1\n 2 ,3\n".as_bytes()).unwrap();
        let wrong = rows.next().unwrap().unwrap().unwrap_err();
        assert_eq!((wrong.line, wrong.problem.as_str()), (2, "has 1 values, the first line has 2 columns"));
        let row = rows.next().unwrap().unwrap().unwrap();
        assert_eq!((row.line, row.value("a").as_str(), row.value("c").as_str()), (3, "2", ""));
        assert!(rows.next().is_none());
    }

    #[test]
    fn what_nobody_sees_at_the_edges_of_a_value_goes() {
        let text = "a\u{200b},\u{a0}b\n\u{feff}1\u{a0},\"\u{200e}2\0\"\n";
        let row = InputRows::csv(text.as_bytes()).unwrap().next().unwrap().unwrap().unwrap();
        assert_eq!((row.value("a"), row.value("b")), ("1".to_owned(), "2".to_owned()));
    }

    #[test]
    fn a_line_past_the_limit_is_skipped_to_its_end() {
        const LINE_BYTES: usize = 256 * 1024;
        let input = io::Cursor::new(format!("{}\nnext\n", "x".repeat(LINE_BYTES * 2)));
        let mut lines = NumberedLines::new(input, LINE_BYTES).map(|line| line.unwrap().1);
        assert_eq!(lines.next().unwrap().len(), LINE_BYTES + 1);
        assert_eq!(lines.next().unwrap(), b"next\n");
        assert_eq!(lines.next(), None);
    }
}
