//! Access tokens of one issuer, next to Tidings' own tokens: the api is a resource server (RFC 9068).
//!
//! `jwt` takes a token apart and yields its claims only after a `key` has verified them. `claims` decides who the caller is, and
//! [`Issuer`] holds the keys. No token and no claim is ever logged.

mod claims;
mod issuer;
mod jwt;
mod key;
mod refused;
#[cfg(test)]
mod tests;
mod trust;

pub use issuer::Issuer;
pub use trust::{TokenType, Trust};
