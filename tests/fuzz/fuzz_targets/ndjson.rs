#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidings_harness::bad_input::ndjson(bytes));
