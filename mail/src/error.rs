//! The errors of making a message and of preparing to send it.

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
