//! The providers whose webhooks are known. The facts come from their documentation and their own libraries; the tests have signed
//! requests and classified events of each.

use tidings_model::Provider;

use super::Webhook;

mod brevo;
mod generic;
pub(super) mod mailgun;
mod mailjet;
mod postmark;
mod resend;
pub(super) mod sendgrid;
pub mod ses;
mod sparkpost;

/// The webhook of a provider.
#[must_use]
pub fn webhook(provider: Provider) -> &'static dyn Webhook {
    match provider {
        Provider::Ses => &ses::Ses,
        Provider::SendGrid => &sendgrid::SendGrid,
        Provider::Mailgun => &mailgun::Mailgun,
        Provider::Postmark => &postmark::Postmark,
        Provider::Resend => &resend::Resend,
        Provider::Mailjet => &mailjet::Mailjet,
        Provider::Brevo => &brevo::Brevo,
        Provider::SparkPost => &sparkpost::SparkPost,
        Provider::Other => &generic::Generic,
    }
}
