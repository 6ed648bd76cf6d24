//! Programs that hand in events, in Rust and in other languages.

mod client;
mod emit;
mod fuzz_corpus;
mod interop;
mod sdks;
