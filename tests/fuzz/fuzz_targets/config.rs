#![no_main]

#[path = "../rules/config.rs"]
mod config;
#[path = "../rules/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::config(bytes));
