//! Programs that hand in events, in Rust and in other languages.

mod bad_input;
mod client;
mod interop;
