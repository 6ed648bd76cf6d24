//! Supported webhook providers, based on their documentation and client libraries. Each should have tests
//! with signed requests and classified events.

use tidings_model::Provider;

use super::ProviderWebhook;

mod brevo;
mod generic;
pub(super) mod mailgun;
mod mailjet;
mod postmark;
mod resend;
pub(super) mod sendgrid;
pub mod ses;
mod sparkpost;

#[must_use]
pub fn webhook_for(provider: Provider) -> &'static dyn ProviderWebhook {
    match provider {
        Provider::Ses => &ses::Ses,
        Provider::SendGrid => &sendgrid::SendGrid,
        Provider::Mailgun => &mailgun::Mailgun,
        Provider::Postmark => &postmark::Postmark,
        Provider::Resend => &resend::Resend,
        Provider::Mailjet => &mailjet::Mailjet,
        Provider::Brevo => &brevo::Brevo,
        Provider::SparkPost => &sparkpost::SparkPost,
        Provider::Other => &generic::GenericWebhook,
    }
}
