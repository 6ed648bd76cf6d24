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
pub use hook::RelayWebhook;
pub use parsed::VerifyError;
pub use parsed::{ParsedBody, ParsedPart};
pub use probe::post_sample;
pub use provider::{ProviderWebhook, RequestProof, SampleRequest, WebhookSecret, WebhookSecrets};
pub use providers::{ses, webhook_for};
pub use receive::WebhookContext;
pub(crate) use receive::route;
pub use standard::SigningSecret;
