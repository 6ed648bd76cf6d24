//! Sends messages by SMTP: keeps connections to a relay, and reports of each attempt its phase and its class.
//!
//! [`Slot::offer`] goes as far as is harmless; only [`Ready::dot`] delivers a message (rule 26). The record that an
//! attempt is past the dot belongs between the two.
//!
//! Each step is a `tracing` span `smtp_step` at `debug`, with its phase. The caller's span around [`Slot::offer`] names relay and
//! message, and [`Ready::dot`] continues that span.

mod classify;
mod connect;
mod connection;
mod failure;
mod pool;
mod reply;
mod slots;
mod tokens;
mod transmit;
mod wire;

pub use classify::{Follows, OUTCOMES, OutcomeRow, RowEvent, SmtpEvent, classify};
pub use connection::Timeouts;
pub use pool::{Limits, Slot};
pub use reply::Reply;
pub use slots::Lane;
pub use transmit::{AttemptOutcome, Mailer, Ready, Withdrawal};
