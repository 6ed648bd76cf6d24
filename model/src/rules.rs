//! The pure decisions of rules 8 to 19: when a window is due, if it may become a digest, and what the digest shows.

pub mod adapt;
pub mod admission;
pub mod cadence;
pub mod contents;
pub mod deadline;
pub mod effective;
pub mod frequency;
mod in_force;
pub(crate) mod offered_cadences;
pub mod open_window;
pub mod pause;
pub mod plan;
pub mod preference_check;
pub mod quiet;
pub mod returned;
#[cfg(test)]
mod samples;
pub mod seen;
pub mod spread;

pub use in_force::{InForce, Next};
pub use offered_cadences::{Choice, Choices};
