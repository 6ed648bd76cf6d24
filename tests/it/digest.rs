//! A digest, from its first event to its outcome, and the commands that act on it.

mod budget;
mod bulk_commands;
mod cancel;
mod categories;
mod changes;
mod commands;
mod dead_letters;
mod directory;
mod directory_commands;
mod hostile_event;
mod hot_key;
mod ledger;
mod metric_queries;
mod metrics;
mod outcomes;
mod pause;
mod people;
mod queries;
mod seeds;
mod seen;
mod spans;
mod spike;
mod stats;
mod team_query;
