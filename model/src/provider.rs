//! Providers and their custom headers, which let webhooks name the message and the provider drop duplicates
//! and choose an IP pool.
//!
//! When sending, we add them before the stored bytes; a relay always gets the same ones. They are not signed,
//! so the signature is valid either way (see `dkim`).

use jiff::SignedDuration;
use serde_json::json;
use uuid::Uuid;

closed_set! {
    #[derive(Default)]
    pub enum Provider {
        Ses = "ses",
        SendGrid = "sendgrid",
        Mailgun = "mailgun",
        Postmark = "postmark",
        Resend = "resend",
        Mailjet = "mailjet",
        Brevo = "brevo",
        SparkPost = "sparkpost",
        /// Like all others, it gets `X-Tidings-Message` from the stored bytes.
        #[default]
        Other = "other",
    }
}

impl Provider {
    /// How long the provider drops duplicates, so an ambiguous attempt can safely be repeated (rule 26).
    /// `None` if no SMTP header enables this.
    #[must_use]
    pub const fn deduplication_window(self) -> Option<SignedDuration> {
        match self {
            // Resend documents 24 hours, Mailjet nothing.
            Self::Resend | Self::Mailjet => Some(SignedDuration::from_hours(23)),
            _ => None,
        }
    }

    /// SES: configuration set; SendGrid and SparkPost: IP pool; Postmark: message stream.
    #[must_use]
    pub const fn has_pools(self) -> bool {
        matches!(self, Self::Ses | Self::SendGrid | Self::Postmark | Self::SparkPost)
    }

    /// Each line ends in CR LF. `pool` must be ASCII letters, digits, `-` and `_`.
    #[must_use]
    pub fn headers(self, message_id: Uuid, pool: Option<&str>) -> String {
        let lines = match self {
            Self::Ses => vec![
                Some(format!("X-SES-MESSAGE-TAGS: tidings_message={message_id}")),
                pool.map(|set| format!("X-SES-CONFIGURATION-SET: {set}")),
            ],
            // A single header, because SendGrid only reads the first one.
            Self::SendGrid => vec![Some(format!("X-SMTPAPI: {}", smtpapi_header(message_id, pool)))],
            Self::Mailgun => vec![Some(format!("X-Mailgun-Variables: {}", json!({ "tidings_message": message_id })))],
            Self::Postmark => vec![
                Some(format!("X-PM-Metadata-tidings-message: {message_id}")),
                pool.map(|stream| format!("X-PM-Message-Stream: {stream}")),
            ],
            Self::Resend => vec![Some(format!("Resend-Idempotency-Key: {message_id}"))],
            // A campaign for just this message.
            Self::Mailjet => vec![
                Some(format!("X-MJ-CustomID: {message_id}")),
                Some(format!("X-Mailjet-Campaign: {message_id}")),
                Some("X-Mailjet-DeduplicateCampaign: 1".to_owned()),
            ],
            Self::Brevo => vec![Some(format!("X-Mailin-custom: {message_id}"))],
            Self::SparkPost => vec![Some(format!("X-MSYS-API: {}", msys_api(message_id, pool)))],
            Self::Other => Vec::new(),
        };
        lines.into_iter().flatten().map(|line| line + "\r\n").collect()
    }
}

fn smtpapi_header(message_id: Uuid, pool: Option<&str>) -> serde_json::Value {
    let arguments = json!({ "tidings_message": message_id });
    match pool {
        Some(pool) => json!({ "unique_args": arguments, "ip_pool": pool }),
        None => json!({ "unique_args": arguments }),
    }
}

fn msys_api(message_id: Uuid, pool: Option<&str>) -> serde_json::Value {
    let metadata = json!({ "tidings_message": message_id });
    match pool {
        Some(pool) => json!({ "metadata": metadata, "options": { "ip_pool": pool } }),
        None => json!({ "metadata": metadata }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01234567-89ab-5def-8123-456789abcdef";

    fn headers(provider: Provider, pool: Option<&str>) -> String {
        provider.headers(ID.parse().unwrap(), pool)
    }

    #[test]
    fn each_provider_hears_what_it_understands() {
        for (provider, pool, expected) in [
            (Provider::Ses, None, format!("X-SES-MESSAGE-TAGS: tidings_message={ID}\r\n")),
            (
                Provider::Ses,
                Some("marketing"),
                format!("X-SES-MESSAGE-TAGS: tidings_message={ID}\r\nX-SES-CONFIGURATION-SET: marketing\r\n"),
            ),
            (Provider::SendGrid, None, format!("X-SMTPAPI: {{\"unique_args\":{{\"tidings_message\":\"{ID}\"}}}}\r\n")),
            (
                Provider::SendGrid,
                Some("marketing"),
                format!(
                    "X-SMTPAPI: {{\"ip_pool\":\"marketing\",\"unique_args\":{{\"tidings_message\":\"{ID}\"}}}}\r\n"
                ),
            ),
            (Provider::Mailgun, None, format!("X-Mailgun-Variables: {{\"tidings_message\":\"{ID}\"}}\r\n")),
            (
                Provider::Postmark,
                Some("broadcasts"),
                format!("X-PM-Metadata-tidings-message: {ID}\r\nX-PM-Message-Stream: broadcasts\r\n"),
            ),
            (Provider::Resend, None, format!("Resend-Idempotency-Key: {ID}\r\n")),
            (
                Provider::Mailjet,
                None,
                format!("X-MJ-CustomID: {ID}\r\nX-Mailjet-Campaign: {ID}\r\nX-Mailjet-DeduplicateCampaign: 1\r\n"),
            ),
            (Provider::Brevo, None, format!("X-Mailin-custom: {ID}\r\n")),
            (Provider::SparkPost, None, format!("X-MSYS-API: {{\"metadata\":{{\"tidings_message\":\"{ID}\"}}}}\r\n")),
            (
                Provider::SparkPost,
                Some("marketing"),
                format!(
                    "X-MSYS-API: {{\"metadata\":{{\"tidings_message\":\"{ID}\"}},\"options\":{{\"ip_pool\":\"marketing\"}}}}\r\n"
                ),
            ),
            (Provider::Other, None, String::new()),
        ] {
            assert_eq!(headers(provider, pool), expected, "{}", provider.name());
        }
    }

    #[test]
    fn a_header_for_a_provider_fits_in_a_line() {
        let longest = "x".repeat(64);
        for provider in Provider::ALL {
            let headers = headers(provider, provider.has_pools().then_some(longest.as_str()));
            assert!(headers.is_ascii() && headers.split_inclusive("\r\n").all(|line| line.len() < 300), "{headers}");
        }
    }
}
