//! Single messages, and the reports of providers about them.

mod commands;
mod delivery;
mod delivery_events;
mod pause;
