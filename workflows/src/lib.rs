//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.

pub mod contract;
mod event;
mod inbound;
mod key;
pub mod limits;
pub mod names;

pub use event::Event;
pub use inbound::{Inbound, Sorted};
pub use key::Key;
