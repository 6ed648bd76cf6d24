//! Provider webhooks. We verify a request over its raw bytes before parsing it.

mod again;
mod basic;
mod hook;
mod letter;
mod parsed;
mod probe;
mod provider;
mod providers;
mod receive;
pub mod samples;
mod standard;
#[cfg(test)]
pub(crate) mod tests;

pub use again::{ShownWebhookLetter, read_letter, shown_letter};
pub use hook::Hook;
pub use parsed::Refused;
pub use parsed::{Parsed, Part};
pub use probe::post;
pub use provider::{Proof, SampleRequest, Secrets, Webhook, WebhookSecret};
pub use providers::{ses, webhook};
pub use receive::Webhooks;
pub(crate) use receive::route;
pub use standard::Secret;
