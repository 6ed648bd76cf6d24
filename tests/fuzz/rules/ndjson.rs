//! NDJSON: every line is an event or a refusal that names it, and none is lost.

use std::io::Cursor;

use tidings::emit::{EventLine, EventLines, KeyDefaults, LineRejection, decompress_text};
use tidings_model::{
    Event,
    foreign_text::{is_utf16, skip_bom},
};
use tidings_proto::v1;

use super::presentable::assert_presentable;

/// The longest line that is read.
const LINE_BYTES: usize = 256 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The bytes are a file for `tidings emit`, gzipped or not.
///
/// # Panics
/// Where a rule is broken.
pub fn ndjson(bytes: &[u8]) {
    let numbers = read(bytes);
    if !bytes.starts_with(GZIP) && !is_utf16(bytes) {
        assert_eq!(numbers, of_lines(skip_bom(bytes)), "lines that were read, and lines that there are");
    }
}

/// Checks each line, and tells their numbers.
fn read(bytes: &[u8]) -> Vec<u64> {
    let Ok(input) = decompress_text(Cursor::new(bytes.to_vec())) else { return Vec::new() };
    let mut numbers = Vec::new();
    for read in EventLines::new(input, KeyDefaults::default()) {
        match read {
            Ok(Ok(EventLine { number, event, .. })) => {
                good(&event);
                numbers.push(number);
            }
            Ok(Err(rejection)) => {
                refused(&rejection);
                numbers.push(rejection.line);
            }
            Err(error) => {
                assert!(bytes.starts_with(GZIP), "memory cannot fail: {error:#}");
                let next = numbers.last().map_or(0, |number| number + 1);
                let line = error.to_string().split(' ').nth(1).and_then(|number| number.parse::<u64>().ok());
                assert!(line >= Some(next), "{error:#} after {numbers:?}");
            }
        }
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    numbers
}

/// Asserts that an accepted line is within the contract and keeps its value as JSON, because it is handed over
/// unchanged.
fn good(event: &v1::Event) {
    Event::from_wire(event.clone(), None).expect("a line that was taken is within the contract");
    let json = serde_json::to_string(event).expect("an event is JSON");
    assert_eq!(serde_json::from_str::<v1::Event>(&json).expect("its JSON is an event"), *event);
}

fn refused(rejection: &LineRejection) {
    let LineRejection { field, problem, .. } = rejection;
    assert_presentable("a field", field, 600);
    assert_presentable("a problem", problem, 600);
    assert!(!problem.is_empty(), "line {} says nothing", rejection.line);
}

/// The numbers of the lines that are not blank.
fn of_lines(bytes: &[u8]) -> Vec<u64> {
    let counts = |line: &[u8]| !line.trim_ascii().is_empty() || line.len() > LINE_BYTES;
    (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')).filter(|(_, line)| counts(line)).map(|(n, _)| n).collect()
}
