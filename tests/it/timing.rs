//! The due times of windows, over days and weeks.

mod calendar;
mod edited_configuration;
mod preferences;
mod undo;
mod waits;
mod zoneinfo;
