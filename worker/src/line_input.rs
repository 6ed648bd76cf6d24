//! For commands that read many lines.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use anyhow::Context as _;
use flate2::bufread::MultiGzDecoder;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use serde::Serialize;
use tidings_model::foreign_text::{WrongEncoding, cut_bytes, is_utf16, skip_bom};
use tidings_operations::rows::{InputRows, NO_OBJECT, RowReadError, WrongHeader, WrongLine};

use crate::error::UsageError;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct LineRejection {
    pub line: u64,
    /// As named in the contract or the header. Empty if the whole line is wrong.
    pub field: String,
    pub problem: String,
}

/// Limit per text. They quote the faulty input, which may be a whole line.
const SHOWN_BYTES: usize = 500;

impl LineRejection {
    /// Truncates the texts and removes control characters, so they are safe on a terminal.
    pub(crate) fn new(line: u64, field: &str, problem: &str) -> Self {
        Self { line, field: terminal_text(field), problem: terminal_text(problem) }
    }
}

impl From<WrongLine> for LineRejection {
    fn from(WrongLine { line, problem }: WrongLine) -> Self {
        let remedy = if problem == NO_OBJECT { "; write one object a line (NDJSON)" } else { "" };
        Self::new(line, "", &(problem + remedy))
    }
}

fn terminal_text(text: &str) -> String {
    let cut = cut_bytes(text, SHOWN_BYTES);
    let shown = cut.replace(char::is_control, " ");
    if cut.len() < text.len() { format!("{shown}…") } else { shown }
}

#[derive(Debug, Default, Serialize)]
struct LineTotals {
    accepted: u64,
    rejected: u64,
}

pub(crate) struct LineReport {
    json: bool,
    bar: ProgressBar,
    summary: LineTotals,
    warnings: u64,
}

impl LineReport {
    pub fn new(json: bool, bar: ProgressBar) -> Self {
        Self { json, bar, summary: LineTotals::default(), warnings: 0 }
    }

    pub fn count_accepted(&mut self, count: u64) {
        self.summary.accepted += count;
        self.bar.set_message(HumanCount(self.summary.accepted).to_string());
    }

    pub fn report_rejection(&mut self, rejection: &LineRejection) {
        self.summary.rejected += 1;
        let LineRejection { line, field, problem } = rejection;
        self.bar.suspend(|| {
            if self.json {
                anstream::println!("{}", serde_json::json!({ "rejected": rejection }));
            } else if field.is_empty() {
                anstream::eprintln!("{RED}line {line}{RED:#}: {problem}");
            } else {
                anstream::eprintln!("{RED}line {line}{RED:#}: {field}: {problem}");
            }
        });
    }

    /// As text, only prints the first warnings, because every line may have the same mistake.
    pub fn report_warning(&mut self, warning: &LineRejection) {
        self.warnings += 1;
        let LineRejection { line, field, problem } = warning;
        self.bar.suspend(|| {
            if self.json {
                anstream::println!("{}", serde_json::json!({ "warning": warning }));
            } else if self.warnings <= WARNINGS {
                anstream::eprintln!("{YELLOW}line {line}{YELLOW:#}: warning: {field}: {problem}");
            }
        });
    }

    /// Prints the totals. Returns `false` if a line was rejected.
    pub fn print_totals(self, what: &str) -> bool {
        self.bar.finish_and_clear();
        let LineTotals { accepted, rejected } = self.summary;
        if self.json {
            anstream::println!("{}", serde_json::json!(self.summary));
        } else {
            let more = self.warnings.saturating_sub(WARNINGS);
            if more > 0 {
                anstream::eprintln!("{} more warnings; --json prints all", HumanCount(more));
            }
            anstream::println!("{what}: {} accepted, {} rejected", HumanCount(accepted), HumanCount(rejected));
        }
        rejected == 0
    }
}

/// Opens `path`, or standard input for `-`. The progress bar counts bytes and only appears on a terminal.
pub(crate) fn open_input(path: &Path) -> anyhow::Result<(ProgressBar, Box<dyn BufRead + Send>)> {
    if path == Path::new("-") {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} accepted, {elapsed}")?);
        let lines = decompress_text(io::stdin()).map_err(|error| UsageError(format!("standard input: {error}")))?;
        return Ok((bar, lines));
    }
    let unreadable = |error: io::Error| UsageError(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata()?.len();
    let bar = ProgressBar::new(bytes).with_style(style("{bar:30} {percent}%, {msg} accepted, {eta} left")?);
    let lines = decompress_text(bar.wrap_read(file)).map_err(unreadable)?;
    Ok((bar, lines))
}

/// Decompresses input that starts like gzip (RFC 1952), whatever its name, and skips a byte order mark.
///
/// # Errors
/// The first bytes cannot be read, or are UTF-16.
pub fn decompress_text(bytes: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut bytes = BufReader::with_capacity(64 * 1024, bytes);
    let packed = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let mut text: Box<dyn BufRead + Send> =
        if packed { Box::new(BufReader::new(MultiGzDecoder::new(bytes))) } else { Box::new(bytes) };
    let first = text.fill_buf()?;
    if is_utf16(first) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, WrongEncoding::Utf16));
    }
    let mark = first.len() - skip_bom(first).len();
    text.consume(mark);
    Ok(text)
}

/// # Errors
/// As for [`InputRows::csv`]. Also if a column is not in `columns`, or one in `required` is missing.
pub(crate) fn table<R: BufRead>(input: R, columns: &[&str], required: &[&str]) -> anyhow::Result<InputRows<R>> {
    let mut table = csv(input)?;
    let header = column_names(&mut table)?;
    let right = format!("the first line names the columns {}", columns.join(","));
    if let Some(unknown) = header.iter().find(|column| !columns.contains(&column.as_str())) {
        return Err(UsageError(format!("column {unknown:?} is unknown; {right}")).into());
    }
    match required.iter().find(|required| header.iter().all(|column| column != **required)) {
        Some(missing) => Err(UsageError(format!("there is no column {missing:?}; {right}")).into()),
        None => Ok(table),
    }
}

/// Reads the first line as NDJSON if it begins with `{`, otherwise as a CSV header. Also returns the column
/// names.
///
/// # Errors
/// The line cannot be read, or names no values.
pub(crate) fn records<R: BufRead>(mut input: R) -> anyhow::Result<(InputRows<R>, Vec<String>)> {
    let head = input.fill_buf().context("the first line cannot be read")?;
    let is_json = head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let mut records = if is_json { InputRows::json(input) } else { csv(input)? };
    let columns = column_names(&mut records)?;
    Ok((records, columns))
}

fn csv<R: BufRead>(input: R) -> anyhow::Result<InputRows<R>> {
    InputRows::csv(input).map_err(|wrong| match wrong {
        WrongHeader::Unreadable(_) => wrong.into(),
        WrongHeader::NotUtf8 | WrongHeader::Columns(_) => UsageError(wrong.to_string()).into(),
    })
}

fn column_names<R: BufRead>(rows: &mut InputRows<R>) -> anyhow::Result<Vec<String>> {
    match rows.columns() {
        Ok(columns) => {
            Ok(columns.map_err(|wrong| UsageError(format!("line 1: {}", LineRejection::from(wrong).problem)))?)
        }
        Err(RowReadError::Line(_, error)) => Err(error).context("the first line cannot be read"),
        Err(error) => Err(error.into()),
    }
}

fn style(template: &str) -> anyhow::Result<ProgressStyle> {
    Ok(ProgressStyle::with_template(template)?)
}

const WARNINGS: u64 = 20;

const YELLOW: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();
const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_skipped_and_utf_16_is_named() {
        let read = |bytes: &'static [u8]| decompress_text(bytes).and_then(io::read_to_string);
        assert_eq!(read(b"\xef\xbb\xbftenant,user\n").unwrap(), "tenant,user\n");
        assert_eq!(read(b"").unwrap(), "");
        for utf16 in [&b"\xff\xfet\0e\0"[..], b"t\0e\0"] {
            assert_eq!(read(utf16).unwrap_err().to_string(), "is UTF-16; save it as UTF-8");
        }
    }

    #[test]
    fn a_refusal_is_bounded_and_has_no_control_characters() {
        let LineRejection { field, problem, .. } = LineRejection::new(1, "\u{1b}[2J", &"ü".repeat(1_000));
        assert_eq!(field, " [2J");
        assert_eq!(problem, format!("{}…", "ü".repeat(SHOWN_BYTES / 2)));
    }

    #[test]
    fn the_first_line_must_name_known_columns() {
        for (header, says) in [
            ("tenant,user", "no column \"address\""),
            ("tenant,user,address,tz", "\"tz\" is unknown"),
            ("tenant;user;address", "semicolons between its columns"),
            ("tenant\tuser\taddress", "tabs between its columns"),
            ("tenant,user,address, user", "\"user\" is there twice"),
        ] {
            let table = table(header.as_bytes(), &["tenant", "user", "address"], &["address"]);
            let error = table.err().unwrap();
            assert!(error.is::<UsageError>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn csv_and_ndjson_are_told_apart_by_their_first_byte() {
        let read = |text: &'static [u8]| {
            let (records, columns) = records(text).unwrap();
            let rows = records.map(|line| {
                let row = line.unwrap().map(|row| (row.line, row.value("a")));
                row.map_err(|wrong| LineRejection::from(wrong).problem)
            });
            (columns, rows.collect::<Vec<_>>())
        };
        let (columns, rows) = read(b"a,b\n1,2\n3,4\n");
        assert_eq!(columns, ["a", "b"]);
        assert_eq!(rows, [Ok((2, "1".to_owned())), Ok((3, "3".to_owned()))]);
        let (columns, rows) = read(b"{\"a\":1,\"b\":null}\n\n{\"a\":\" x \"}\n[1]\n{\"b\":2}\n");
        assert_eq!(columns, ["a", "b"]);
        let problem = "is not a JSON object; write one object a line (NDJSON)".to_owned();
        assert_eq!(rows, [Ok((1, "1".to_owned())), Ok((3, "x".to_owned())), Err(problem), Ok((5, String::new()))]);
    }
}
