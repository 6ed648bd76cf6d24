//! Upkeep: the schedule that starts it every night, and `tidings upkeep`, which starts it by hand.

mod command;
pub mod schedule;

pub(crate) use command::{Command, run};
