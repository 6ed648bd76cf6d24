//! What must hold whatever somebody hands over: one function for each place that reads input from outside. Each takes any
//! bytes and panics where a rule is broken.
//!
//! The fuzzer of `tests/fuzz` calls them, and `tests/bad_input.rs` with all that the fuzzer ever found.

mod cadence;
mod config;
mod event;
mod html;
mod key;
mod ndjson;
mod reply;
mod smtp;
mod template;
mod url;

pub use cadence::cadence;
pub use config::config;
pub use event::event;
pub use key::key;
pub use ndjson::ndjson;
pub use smtp::smtp;
pub use template::template;
pub use url::url;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by the names of their fuzz targets and corpora.
pub const TARGETS: [(&str, Target); 8] = [
    ("cadence", cadence),
    ("config", config),
    ("event", event),
    ("key", key),
    ("ndjson", ndjson),
    ("smtp", smtp),
    ("template", template),
    ("url", url),
];

/// The lines of an input; what is no UTF-8 becomes U+FFFD.
fn lines(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// That a text is fit for one line of a log or a terminal, and no essay.
fn assert_presentable(what: &str, text: &str, most_bytes: usize) {
    assert!(!text.contains(char::is_control), "{what} has a control character: {text:?}");
    assert!(text.len() <= most_bytes, "{what} has {} bytes: {text:?}", text.len());
}
