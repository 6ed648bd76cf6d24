//! CSV files whose first line names the columns, read line by line: what is wrong is said with its line and field.

use std::io::Read;

use anyhow::Context as _;
use tidings_model::{foreign_text::clean_edges, header_fault};

use crate::{error::Usage, line_input::Rejection};

/// The rows of a file, and what its columns mean.
pub(crate) struct Table<R> {
    reader: csv::Reader<R>,
    header: csv::StringRecord,
}

/// One line, or why it is none.
pub(crate) type Line = Result<Row, Rejection>;

/// The values of one line.
pub(crate) struct Row {
    /// Counted from 1.
    pub line: u64,
    header: csv::StringRecord,
    values: csv::StringRecord,
}

impl<R: Read> Table<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// It cannot be read, is not separated by commas, names a column twice or one that is not among `columns`, or lacks one of `required`.
    pub fn new(input: R, columns: &[&str], required: &[&str]) -> anyhow::Result<Self> {
        let table = Self::of_any_columns(input)?;
        check(&table.header, columns, required)?;
        Ok(table)
    }

    /// Reads the first line, whatever it names.
    ///
    /// # Errors
    /// It cannot be read, is not separated by commas, or names a column twice.
    pub fn of_any_columns(input: R) -> anyhow::Result<Self> {
        let mut reader = csv::Reader::from_reader(input);
        let header: csv::StringRecord = match reader.headers() {
            Ok(header) => header.iter().map(clean_edges).collect(),
            Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => {
                return Err(Usage("the first line is not UTF-8; save the file as UTF-8".to_owned()).into());
            }
            Err(error) => return Err(error).context("the first line cannot be read"),
        };
        header_fault(&header).map_or(Ok(Self { reader, header }), |fault| Err(Usage(fault).into()))
    }

    /// The names in the first line.
    pub fn columns(&self) -> Vec<String> {
        self.header.iter().map(str::to_owned).collect()
    }

    /// The next line; an error when nothing more can be read.
    pub fn next(&mut self) -> Option<csv::Result<Line>> {
        let mut values = csv::StringRecord::new();
        match self.reader.read_record(&mut values) {
            Ok(false) => None,
            Ok(true) => {
                let line = values.position().map_or(0, csv::Position::line);
                Some(Ok(Ok(Row { line, header: self.header.clone(), values })))
            }
            Err(error) => Some(refused(error).map(Err)),
        }
    }
}

impl Row {
    /// Returns the value of the column; empty without such a column.
    pub fn value(&self, column: &str) -> String {
        self.get(column).unwrap_or_default()
    }

    /// Returns the value of the column. `None`: the file has no such column.
    pub fn get(&self, column: &str) -> Option<String> {
        let index = self.header.iter().position(|name| name == column)?;
        Some(clean_edges(self.values.get(index).unwrap_or_default()).to_owned())
    }
}

fn check(header: &csv::StringRecord, columns: &[&str], required: &[&str]) -> Result<(), Usage> {
    let right = format!("the first line names the columns {}", columns.join(","));
    if let Some(unknown) = header.iter().find(|column| !columns.contains(column)) {
        return Err(Usage(format!("column {unknown:?} is unknown; {right}")));
    }
    match required.iter().find(|required| header.iter().all(|column| column != **required)) {
        Some(missing) => Err(Usage(format!("there is no column {missing:?}; {right}"))),
        None => Ok(()),
    }
}

/// Returns the problem of one line. Other errors end the file.
fn refused(error: csv::Error) -> csv::Result<Rejection> {
    let refuse = |line, problem: String| Ok(Rejection::new(line, "", &problem));
    match (error.position().map(csv::Position::line), error.kind()) {
        (Some(line), csv::ErrorKind::UnequalLengths { expected_len, len, .. }) => {
            refuse(line, format!("has {len} values, the first line has {expected_len} columns"))
        }
        (Some(line), csv::ErrorKind::Utf8 { .. }) => refuse(line, "is not UTF-8".to_owned()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_must_name_known_columns() {
        for (header, says) in [
            ("tenant,user", "no column \"address\""),
            ("tenant,user,address,tz", "\"tz\" is unknown"),
            ("tenant;user;address", "semicolons between its columns"),
            ("tenant\tuser\taddress", "tabs between its columns"),
            ("tenant,user,address, user", "\"user\" is there twice"),
        ] {
            let table = Table::new(header.as_bytes(), &["tenant", "user", "address"], &["address"]);
            let error = table.err().unwrap();
            assert!(error.is::<Usage>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn a_row_of_another_length_is_refused_alone() {
        let mut table = Table::new("a,b\n1\n 2 ,3\n".as_bytes(), &["a", "b"], &[]).unwrap();
        let rejection = table.next().unwrap().unwrap().err().unwrap();
        assert_eq!((rejection.line, rejection.problem.as_str()), (2, "has 1 values, the first line has 2 columns"));
        let row = table.next().unwrap().unwrap().unwrap();
        assert_eq!((row.line, row.value("a").as_str(), row.value("c").as_str()), (3, "2", ""));
        assert!(table.next().is_none());
    }

    #[test]
    fn what_nobody_sees_at_the_edges_of_a_value_goes() {
        let text = "a\u{200b},\u{a0}b\n\u{feff}1\u{a0},\"\u{200e}2\0\"\n";
        let mut table = Table::new(text.as_bytes(), &["a", "b"], &["a"]).unwrap();
        let row = table.next().unwrap().unwrap().unwrap();
        assert_eq!((row.value("a"), row.value("b")), ("1".to_owned(), "2".to_owned()));
    }
}
