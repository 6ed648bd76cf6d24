#![no_main]

#[path = "../rules/ndjson.rs"]
mod ndjson;
#[path = "../rules/presentable.rs"]
mod presentable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ndjson::ndjson(bytes));
