#![no_main]

#[path = "../rules/html.rs"]
mod html;
#[path = "../rules/lines.rs"]
mod lines;
#[path = "../rules/link.rs"]
mod link;
#[path = "../rules/presentable.rs"]
mod presentable;
#[path = "../rules/template.rs"]
mod template;
#[path = "../rules/view.rs"]
mod view;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| template::template(bytes));
