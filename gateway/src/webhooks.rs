//! Webhooks of providers. A request is verified over its raw bytes, and only then read as delivery events.
//!
//! Each provider has a module with `verify` and `parse`, both pure functions. The facts come from the providers' documentation
//! and their own libraries; the tests have signed requests and classified events of each.

mod basic;
pub mod generic;
pub mod mailgun;
pub mod mailjet;
mod parsed;
pub mod postmark;
mod refused;
pub mod resend;
pub mod sendgrid;
pub mod ses;
mod standard;
#[cfg(test)]
mod tests;

pub use basic::Credentials;
pub use parsed::{Parsed, Part};
pub use refused::Refused;
pub use standard::Secret;
