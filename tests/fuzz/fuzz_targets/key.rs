#![no_main]

#[path = "../rules/key.rs"]
mod key;
#[path = "../rules/lines.rs"]
mod lines;
#[path = "../rules/presentable.rs"]
mod presentable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| key::key(bytes));
