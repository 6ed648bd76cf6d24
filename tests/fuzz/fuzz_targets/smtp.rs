#![no_main]

#[path = "../rules/lines.rs"]
mod lines;
#[path = "../rules/presentable.rs"]
mod presentable;
#[path = "../rules/reply.rs"]
mod reply;
#[path = "../rules/smtp.rs"]
mod smtp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| smtp::smtp(bytes));
