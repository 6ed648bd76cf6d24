#![no_main]

#[path = "../rules/presentable.rs"]
mod presentable;
#[path = "../rules/webhook.rs"]
mod webhook;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| webhook::webhook(bytes));
