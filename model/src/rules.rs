//! The pure decisions of rules 8 to 18: when a window is due, and whether it may become a digest.

pub mod admission;
pub mod cadence;
pub mod deadline;
pub mod effective;
pub mod frequency;
mod in_force;
pub(crate) mod offered_cadences;
pub mod pause;
pub mod plan;
pub mod preference_check;
pub mod quiet;
pub mod returned;
#[cfg(test)]
mod samples;
pub mod spread;

pub use in_force::{InForce, Next};
pub use offered_cadences::{Choice, Choices};
