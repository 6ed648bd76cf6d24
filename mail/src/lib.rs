//! Makes messages and sends them. Templates render subject, HTML and text, MIME and DKIM make the bytes, SMTP carries them.

mod address;
mod bidi;
pub mod bounce;
pub mod dkim;
mod error;
pub mod mime;
pub mod render;
pub mod smtp;
pub mod words;

pub use error::Error;
