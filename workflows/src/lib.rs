//! The deterministic part of Tidings: the digest workflow and the pure modules that decide for it.
//!
//! Nothing here reads a clock, draws a random number or talks to anybody; `clippy.toml` sees to it.

mod act;
pub mod activities;
mod cadence;
mod call;
mod carried;
pub mod command;
pub mod contract;
mod digest;
mod event;
mod inbound;
mod key;
pub mod limits;
pub mod message;
pub mod names;
mod pending;
mod quiet;
mod retract;
#[cfg(test)]
mod simulation;
mod state;
mod status;
pub mod upkeep;

pub use cadence::{Cadence, ParseError, Slide, words};
pub use carried::{Carried, Told, Unreadable};
pub use digest::Digest;
pub use event::Event;
pub use inbound::{Inbound, Sorted};
pub use key::Key;
pub use message::{Message, MessageKey};
pub use pending::{PAGE_BYTES, PAGE_EVENTS};
pub use quiet::{Quiet, QuietTime, WholeWeek};
pub use retract::Retract;
pub use state::{Ended, RETRY_DELAYS, Summary};
pub use status::{Delivery, Status};
pub use upkeep::Upkeep;
