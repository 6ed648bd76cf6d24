//! Ids of dead letters.

use std::str::FromStr;

use tidings_model::records::{DeadLetterId, WebhookLetterId};

/// The id of a dead letter of either source.
#[derive(Clone, Debug)]
pub enum LetterId {
    Events(DeadLetterId),
    Webhook(WebhookLetterId),
}

/// `RUN_ID.SEQ`, or `RELAY/DIGITS`.
impl FromStr for LetterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Webhook).map_err(|error| error.to_string());
        }
        text.parse().map(Self::Events).map_err(|error| error.to_string())
    }
}
