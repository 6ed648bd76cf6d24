//! The pure decisions of rules 8 to 19: when a window is due, if it may become a digest, and which lines the
//! digest shows.

pub mod adapt;
pub mod admission;
pub mod contents;
pub mod deadline;
pub mod effective;
pub mod frequency;
mod in_force;
pub mod limit;
pub mod next_moment;
pub mod open_window;
pub mod pause;
pub mod plan;
pub mod preference_check;
mod promise;
pub mod returned;
#[cfg(test)]
mod samples;
pub mod seen_elsewhere;
pub mod spread;
mod urgent;
pub mod working_days;

pub use in_force::{EffectiveSchedule, NextDeadline};
