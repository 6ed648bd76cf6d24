//! Builds and sends email. Templates render subject, HTML and text; MIME and DKIM build the bytes; SMTP
//! delivers them.

use lettre::Address;
use tidings_model::EmailAddress;

mod bidi;
pub mod bounce;
pub mod dkim;
pub mod mime;
pub mod render;
pub mod smtp;
pub mod words;

#[derive(Debug, thiserror::Error)]
pub enum MailError {
    #[error("trusted certificates: {0}")]
    Trust(String),
    /// Never contains the key.
    #[error("DKIM: {0}")]
    DkimKey(String),
    /// Does not show addresses.
    #[error("message: {part} {problem}")]
    Message {
        /// E.g. `attachment`.
        part: &'static str,
        problem: String,
    },
}

/// The address is already validated. lettre 0.11.23 has its own check and would reject emoji.
pub(crate) fn lettre_address(address: &EmailAddress) -> Address {
    Address::new_dangerous(address.local_part(), address.domain())
}
