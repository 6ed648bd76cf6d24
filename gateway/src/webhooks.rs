//! Webhooks of providers. A request is verified over its raw bytes, and only then read as delivery events.
//!
//! Each provider has a module with `verify` and `parse`, both pure functions. The facts come from the providers' documentation
//! and their own libraries; the tests have signed requests and classified events of each. `route` is the route of all webhooks.

mod again;
mod basic;
pub mod generic;
mod hook;
mod letter;
pub mod mailgun;
pub mod mailjet;
mod parsed;
pub mod postmark;
mod probe;
mod receive;
mod refused;
pub mod resend;
pub mod samples;
pub mod sendgrid;
pub mod ses;
mod standard;
#[cfg(test)]
mod tests;

pub use again::{ShownWebhookLetter, read_letter, shown_letter};
pub use basic::Credentials;
pub use hook::Hook;
pub use parsed::{Parsed, Part};
pub use probe::post;
pub use receive::Webhooks;
pub(crate) use receive::route;
pub use refused::Refused;
pub use standard::Secret;
