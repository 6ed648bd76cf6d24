//! The rule for every text that reaches a log or a terminal.

/// Asserts that a text fits on one line of a log or a terminal and is short.
pub(super) fn assert_presentable(what: &str, text: &str, most_bytes: usize) {
    assert!(!text.contains(char::is_control), "{what} has a control character: {text:?}");
    assert!(text.len() <= most_bytes, "{what} has {} bytes: {text:?}", text.len());
}
