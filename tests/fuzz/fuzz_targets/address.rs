#![no_main]

#[path = "../rules/address.rs"]
mod address;
#[path = "../rules/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| address::address(bytes));
