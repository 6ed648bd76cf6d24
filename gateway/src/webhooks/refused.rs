//! The reasons why a request is not believed.

/// The reason why a request is refused. For logs only: the answer never says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A header that the signature needs is missing, or is not text.
    #[error("has no header {0}")]
    Header(&'static str),
    /// A part of the request cannot be read.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// No secret of the relay made this signature.
    #[error("the signature is wrong")]
    Signature,
    /// The user name or password is wrong.
    #[error("the credentials are wrong")]
    Credentials,
    /// The request was signed too long ago, or in the future.
    #[error("the time of the signature is too far from now")]
    Time,
    /// The token came with another body before.
    #[error("the token came with another body before")]
    Token,
    /// Anybody may subscribe our URL to a topic of their own.
    #[error("the topic is not one of topic_arn")]
    Topic,
    /// The version of the signature is unknown, or not allowed.
    #[error("the version of the signature is not allowed")]
    Version,
    /// SNS signs nothing if the subscription delivers raw messages.
    #[error("raw message delivery is not signed; switch it off in the subscription")]
    Raw,
    /// The certificate is not at an address that we would build, or is not that of SNS.
    #[error("the certificate is not that of SNS")]
    Certificate,
}
