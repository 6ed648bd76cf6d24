#![no_main]

#[path = "../rules/event.rs"]
mod event;
#[path = "../rules/presentable.rs"]
mod presentable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| event::event(bytes));
