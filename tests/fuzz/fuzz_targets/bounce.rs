#![no_main]

#[path = "../rules/bounce.rs"]
mod bounce;
#[path = "../rules/presentable.rs"]
mod presentable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bounce::bounce(bytes));
