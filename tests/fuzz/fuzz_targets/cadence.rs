#![no_main]

#[path = "../rules/cadence.rs"]
mod cadence;
#[path = "../rules/lines.rs"]
mod lines;
#[path = "../rules/presentable.rs"]
mod presentable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cadence::cadence(bytes));
