//! Makes messages and sends them. Templates render subject, HTML and text, MIME and DKIM make the bytes, SMTP carries them.

use lettre::Address;
use tidings_model::EmailAddress;

mod bidi;
pub mod bounce;
pub mod dkim;
pub mod mime;
pub mod render;
pub mod smtp;
pub mod words;

/// A mailer, a signer or a message that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate authority can be trusted, or the file with one cannot be read.
    #[error("trusted certificates: {0}")]
    Trust(String),
    /// A fault of the DKIM key, and its remedy. Never the key.
    #[error("DKIM: {0}")]
    DkimKey(String),
    /// A part that a message cannot carry. Does not show addresses.
    #[error("message: {part} {problem}")]
    Message {
        /// For example `attachment`.
        part: &'static str,
        /// The fault and its remedy.
        problem: String,
    },
}

/// An address is checked already. lettre 0.11.23 would check it in its own way, and refuse emoji.
pub(crate) fn checked(address: &EmailAddress) -> Address {
    Address::new_dangerous(address.local_part(), address.domain())
}
