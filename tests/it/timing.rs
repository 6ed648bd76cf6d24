//! The due times of windows, over days and weeks.

mod adapt;
mod calendar;
mod edited_configuration;
mod preferences;
mod undo;
mod waits;
