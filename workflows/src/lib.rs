//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.
//!
//! Nothing here reads a clock, draws a random number or talks to anybody; `clippy.toml` sees to it.

mod cadence;
mod call;
mod carried;
pub mod command;
pub mod contract;
pub mod digest;
mod event;
mod inbound;
mod key;
pub mod limits;
pub mod message;
pub mod names;
mod quiet;
mod retract;
pub mod upkeep;

pub use cadence::{Cadence, ParseError, Slide, words};
pub use carried::{Carried, Told, Unreadable};
pub use digest::{Delivery, Digest, Ended, PAGE_BYTES, PAGE_EVENTS, RETRY_DELAYS, Status, Summary, activities};
pub use event::Event;
pub use inbound::{Inbound, Sorted};
pub use key::Key;
pub use message::{Message, MessageKey};
pub use quiet::{Quiet, QuietTime, WholeWeek};
pub use retract::Retract;
pub use upkeep::Upkeep;
