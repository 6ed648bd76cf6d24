//! The configuration visible in a single message: sender, links and signature.

use serde::Serialize;
use tidings_mail::{
    dkim::TenantSigners,
    mime::{ComposeSettings, MessageParty, OwnMessage},
};
use tidings_model::{
    MessageKey, UnsubscribeLink, hex_sha256,
    records::OutboxMessage,
    settings::{RecipientLinks, Settings, StreamName, StreamSettings, TenantStream},
};

use crate::error::StepError;

pub struct MessageConfiguration<'a> {
    pub settings: &'a Settings,
    pub signers: &'a TenantSigners,
    pub key: &'a MessageKey,
    pub stream: StreamName,
    pub user: Option<&'a str>,
    pub address: &'a str,
}

#[derive(Serialize)]
struct MessageFingerprint<'a> {
    from: [&'a str; 2],
    envelope_from: String,
    unsubscribe: [Option<&'a str>; 2],
    view: Option<&'a str>,
    signed_by: Vec<[String; 2]>,
}

impl MessageConfiguration<'_> {
    /// Returns a bulk message's links. A transactional message has none.
    #[must_use]
    pub fn links(&self) -> RecipientLinks {
        if self.stream == StreamName::Transactional {
            return RecipientLinks::default();
        }
        let (tenant, address) = (self.key.tenant.clone(), self.address.to_owned());
        let link = UnsubscribeLink::Suppress { tenant, address, message: self.key.message_id() };
        self.settings.recipient_links(&link, self.user.unwrap_or_default(), self.stream)
    }

    #[must_use]
    pub fn token(&self) -> Option<String> {
        self.settings.report_token(&self.key.tenant, self.key.message_id())
    }

    /// See [`OutboxMessage::made_from`].
    ///
    /// # Errors
    /// Never, because everything is text.
    pub fn made_from(&self) -> serde_json::Result<String> {
        let (stream, links) = (self.stream_settings(), self.links());
        let made_from = MessageFingerprint {
            from: [&stream.sender.name, stream.sender.address.as_str()],
            envelope_from: stream.envelope_from(self.token().as_deref()),
            unsubscribe: [links.unsubscribe_url.as_deref(), links.unsubscribe_mailto.as_deref()],
            view: links.view_url.as_deref(),
            signed_by: self.signers.dns_records(&self.key.tenant, self.stream),
        };
        Ok(hex_sha256(&serde_json::to_vec(&made_from)?))
    }

    fn stream_settings(&self) -> &StreamSettings {
        let TenantStream { stream, .. } = self.settings.for_tenant(&self.key.tenant, self.stream);
        stream
    }

    /// Applies this configuration. `None` if we did not compose all of the message's bytes.
    ///
    /// # Errors
    /// If the message cannot be composed or signed.
    pub fn apply_to(&self, message: &OutboxMessage) -> Result<Option<OutboxMessage>, StepError> {
        let failed = |error: &dyn ToString| StepError::Render(error.to_string());
        let Some(own) = OwnMessage::from_stored(message) else { return Ok(None) };
        let (stream, links, token) = (self.stream_settings(), self.links(), self.token());
        let from = MessageParty { name: &stream.sender.name, address: &stream.sender.address };
        let composed = own.composed_with(ComposeSettings { from, links: &links, token: token.as_deref() });
        let composed = composed.map_err(|error| failed(&error))?;
        let signed = self.signers.sign(&self.key.tenant, self.stream, composed.bytes, message.made_at);
        Ok(Some(OutboxMessage {
            envelope_from: stream.envelope_from(token.as_deref()),
            bytes: signed.map_err(|error| failed(&error))?,
            made_from: self.made_from().map_err(|error| failed(&error))?,
            ..message.clone()
        }))
    }
}
