//! Sends messages by SMTP: composes the bytes of a message once, keeps connections to a relay, and says of every
//! attempt how far it came and what that means.
//!
//! [`Mailer::offer`] goes as far as is harmless; only [`Ready::dot`] can make a mail (rule 26). The record that an
//! attempt is past the dot belongs between the two.

mod check;
mod compose;
mod connection;
mod deliver;
mod dkim;
mod failure;
mod header;
mod lines;
mod open;
mod outcome;
mod pool;
mod reply;
mod signers;
mod tls;
mod wire;

pub use compose::{Composed, Draft, Of, Person};
pub use connection::Timeouts;
pub use deliver::{Delivery, Mailer, Ready, Withdrawal};
pub use dkim::Dkim;
pub use outcome::{Event, classify};
pub use pool::Limits;
pub use reply::Reply;
pub use signers::Signers;

/// What keeps a mailer or a message from coming into being.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate authority can be trusted, or the file with one cannot be read.
    #[error("trusted certificates: {0}")]
    Trust(String),
    /// The DKIM key: what is wrong with it and what would be right. Never the key.
    #[error("DKIM: {0}")]
    DkimKey(String),
    /// A part of the message is not what a mail can carry. Does not show addresses.
    #[error("message: {part} {problem}")]
    Message {
        /// For example `recipient address`.
        part: &'static str,
        /// What is wrong with it and what would be right.
        problem: String,
    },
}
