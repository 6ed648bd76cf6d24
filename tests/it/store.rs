//! The database and the files on disk.

mod copy;
mod full_disk;
mod outage;
mod refusals;
mod retention;
mod retention_alerts;
mod statements;
