//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.
//!
//! Nothing here reads a clock, draws a random number or talks to anybody; `clippy.toml` sees to it.

mod carried;
pub mod digest;
mod driver;
mod inbound;
pub mod message;
pub mod upkeep;

pub use carried::{Carried, Told, Unreadable};
pub use digest::{Delivery, Digest, Ended, PAGE_BYTES, PAGE_EVENTS, Status, Summary, activities};
pub use inbound::Inbound;
pub use message::Message;
pub use upkeep::Upkeep;
