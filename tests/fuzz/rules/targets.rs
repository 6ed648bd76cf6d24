//! Rules for code that reads input from outside: one function for each reader, which takes any bytes and panics if a rule is
//! broken.
//!
//! The fuzz targets of `tests/fuzz` call these functions with new inputs, and the end-to-end tests with those of the corpus.

pub mod address;
mod bounce;
pub mod cadence;
mod config;
mod event;
mod html;
pub mod key;
mod lines;
mod link;
mod ndjson;
mod presentable;
mod reply;
pub mod smtp;
pub mod template;
pub mod token;
pub mod url;
mod view;
mod webhook;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// Every function, by the name of its fuzz target and corpus.
pub const TARGETS: [(&str, Target); 12] = [
    ("address", address::address),
    ("bounce", bounce::bounce),
    ("cadence", cadence::cadence),
    ("config", config::config),
    ("event", event::event),
    ("key", key::key),
    ("ndjson", ndjson::ndjson),
    ("smtp", smtp::smtp),
    ("template", template::template),
    ("token", token::token),
    ("url", url::url),
    ("webhook", webhook::webhook),
];
