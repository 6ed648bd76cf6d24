#![no_main]

#[path = "../rules/lines.rs"]
mod lines;
#[path = "../rules/token.rs"]
mod token;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| token::token(bytes));
