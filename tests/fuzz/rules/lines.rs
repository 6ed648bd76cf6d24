//! Splits an input into lines.

/// The lines of an input. Bytes that are not UTF-8 become U+FFFD.
pub(super) fn lines(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}
