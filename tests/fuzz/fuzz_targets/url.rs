#![no_main]

#[path = "../rules/link.rs"]
mod link;
#[path = "../rules/url.rs"]
mod url;
#[path = "../rules/view.rs"]
mod view;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| url::url(bytes));
