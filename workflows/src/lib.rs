//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.

pub mod contract;
mod event;
mod inbound;
mod key;
pub mod limits;

pub use event::Event;
pub use inbound::{Inbound, SIGNAL, Sorted};
pub use key::Key;
