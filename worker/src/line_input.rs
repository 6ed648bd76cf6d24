//! Shared by commands that read many lines.

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
use tidings_operations::rows::{NO_OBJECT, Rows, Unreadable, WrongHeader, WrongLine};

use crate::error::Usage;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rejection {
    pub line: u64,
    /// As named in the contract or the header. Empty if the whole line is wrong.
    pub field: String,
    pub problem: String,
}

/// Limit per text. They quote the faulty input, which may be a whole line.
const SHOWN_BYTES: usize = 500;

impl Rejection {
    /// Truncates the texts and removes control characters, so they are safe on a terminal.
    pub(crate) fn new(line: u64, field: &str, problem: &str) -> Self {
        Self { line, field: presentable(field), problem: presentable(problem) }
    }
}

impl From<WrongLine> for Rejection {
    fn from(WrongLine { line, problem }: WrongLine) -> Self {
        let remedy = if problem == NO_OBJECT { "; write one object a line (NDJSON)" } else { "" };
        Self::new(line, "", &(problem + remedy))
    }
}

fn presentable(text: &str) -> String {
    let cut = cut_bytes(text, SHOWN_BYTES);
    let shown = cut.replace(char::is_control, " ");
    if cut.len() < text.len() { format!("{shown}…") } else { shown }
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    accepted: u64,
    rejected: u64,
}

pub(crate) struct Report {
    json: bool,
    bar: ProgressBar,
    summary: Summary,
    warnings: u64,
}

impl Report {
    pub fn new(json: bool, bar: ProgressBar) -> Self {
        Self { json, bar, summary: Summary::default(), warnings: 0 }
    }

    pub fn accepted(&mut self, count: u64) {
        self.summary.accepted += count;
        self.bar.set_message(HumanCount(self.summary.accepted).to_string());
    }

    pub fn rejected(&mut self, rejection: &Rejection) {
        self.summary.rejected += 1;
        let Rejection { line, field, problem } = rejection;
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
    pub fn warned(&mut self, warning: &Rejection) {
        self.warnings += 1;
        let Rejection { line, field, problem } = warning;
        self.bar.suspend(|| {
            if self.json {
                anstream::println!("{}", serde_json::json!({ "warning": warning }));
            } else if self.warnings <= WARNINGS {
                anstream::eprintln!("{YELLOW}line {line}{YELLOW:#}: warning: {field}: {problem}");
            }
        });
    }

    /// Prints the totals. Returns `false` if a line was rejected.
    pub fn end(self, what: &str) -> bool {
        self.bar.finish_and_clear();
        let Summary { accepted, rejected } = self.summary;
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
pub(crate) fn open(path: &Path) -> anyhow::Result<(ProgressBar, Box<dyn BufRead + Send>)> {
    if path == Path::new("-") {
        let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg} accepted, {elapsed}")?);
        let lines = unpacked(io::stdin()).map_err(|error| Usage(format!("standard input: {error}")))?;
        return Ok((bar, lines));
    }
    let unreadable = |error: io::Error| Usage(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata()?.len();
    let bar = ProgressBar::new(bytes).with_style(style("{bar:30} {percent}%, {msg} accepted, {eta} left")?);
    let lines = unpacked(bar.wrap_read(file)).map_err(unreadable)?;
    Ok((bar, lines))
}

/// Decompresses input that starts like gzip (RFC 1952), whatever its name, and skips a byte order mark.
///
/// # Errors
/// The first bytes cannot be read, or are UTF-16.
pub fn unpacked(bytes: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
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

/// Reads the CSV header.
///
/// # Errors
/// As for [`Rows::csv`]. Also if a column is not in `columns`, or one in `required` is missing.
pub(crate) fn table<R: BufRead>(input: R, columns: &[&str], required: &[&str]) -> anyhow::Result<Rows<R>> {
    let mut table = csv(input)?;
    let header = column_names(&mut table)?;
    let right = format!("the first line names the columns {}", columns.join(","));
    if let Some(unknown) = header.iter().find(|column| !columns.contains(&column.as_str())) {
        return Err(Usage(format!("column {unknown:?} is unknown; {right}")).into());
    }
    match required.iter().find(|required| header.iter().all(|column| column != **required)) {
        Some(missing) => Err(Usage(format!("there is no column {missing:?}; {right}")).into()),
        None => Ok(table),
    }
}

/// Reads the first line as NDJSON if it begins with `{`, otherwise as a CSV header. Also returns the column
/// names.
///
/// # Errors
/// The line cannot be read, or names no values.
pub(crate) fn records<R: BufRead>(mut input: R) -> anyhow::Result<(Rows<R>, Vec<String>)> {
    let head = input.fill_buf().context("the first line cannot be read")?;
    let is_json = head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let mut records = if is_json { Rows::json(input) } else { csv(input)? };
    let columns = column_names(&mut records)?;
    Ok((records, columns))
}

fn csv<R: BufRead>(input: R) -> anyhow::Result<Rows<R>> {
    Rows::csv(input).map_err(|wrong| match wrong {
        WrongHeader::Unreadable(_) => wrong.into(),
        WrongHeader::NotUtf8 | WrongHeader::Columns(_) => Usage(wrong.to_string()).into(),
    })
}

fn column_names<R: BufRead>(rows: &mut Rows<R>) -> anyhow::Result<Vec<String>> {
    match rows.columns() {
        Ok(columns) => Ok(columns.map_err(|wrong| Usage(format!("line 1: {}", Rejection::from(wrong).problem)))?),
        Err(Unreadable::Line(_, error)) => Err(error).context("the first line cannot be read"),
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
        let read = |bytes: &'static [u8]| unpacked(bytes).and_then(io::read_to_string);
        assert_eq!(read(b"\xef\xbb\xbftenant,user\n").unwrap(), "tenant,user\n");
        assert_eq!(read(b"").unwrap(), "");
        for utf16 in [&b"\xff\xfet\0e\0"[..], b"t\0e\0"] {
            assert_eq!(read(utf16).unwrap_err().to_string(), "is UTF-16; save it as UTF-8");
        }
    }

    #[test]
    fn a_refusal_is_bounded_and_has_no_control_characters() {
        let Rejection { field, problem, .. } = Rejection::new(1, "\u{1b}[2J", &"ü".repeat(1_000));
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
            assert!(error.is::<Usage>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn csv_and_ndjson_are_told_apart_by_their_first_byte() {
        let read = |text: &'static [u8]| {
            let (records, columns) = records(text).unwrap();
            let rows = records.map(|line| {
                let row = line.unwrap().map(|row| (row.line, row.value("a")));
                row.map_err(|wrong| Rejection::from(wrong).problem)
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
