#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidings_tests::bad_input::smtp(bytes));
