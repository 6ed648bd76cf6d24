//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.

mod cadence;
pub mod contract;
mod event;
mod key;
pub mod limits;

pub use cadence::{Cadence, ParseError};
pub use event::Event;
pub use key::Key;
