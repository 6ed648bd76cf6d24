//! The key of a single message, and the workflow id that it is addressed by.

use std::fmt;

use percent_encoding::{percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    key::ESCAPED,
    limits::{self, Invalid},
};

/// Namespace of the ids of single messages (UUIDv5, RFC 9562): drawn once, fixed for ever.
const MESSAGE_NAMESPACE: Uuid = Uuid::from_u128(0x6f2d_17b8_0c94_5e3a_b1d7_4a86_93ce_50f2);

/// (tenant, idempotency key): whatever is handed over under it is one message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageKey {
    /// The customer or product that the message belongs to.
    pub tenant: String,
    /// The idempotency key, which the sender made up.
    pub key: String,
}

impl MessageKey {
    /// Checks both parts and the length of the workflow id that they make.
    ///
    /// # Errors
    /// Names the field and the limit: a part is empty, has a control character, or the encoded workflow id is over
    /// [`limits::WORKFLOW_ID_BYTES`].
    pub fn new(tenant: String, key: String) -> Result<Self, Invalid> {
        limits::id("tenant", &tenant)?;
        limits::id("key", &key)?;
        let key = Self { tenant, key };
        limits::bytes("tenant and key as a workflow id", key.workflow_id().len(), limits::WORKFLOW_ID_BYTES)?;
        Ok(key)
    }

    /// `message/{tenant}/{key}`, each part percent-encoded.
    #[must_use]
    pub fn workflow_id(&self) -> String {
        format!("message/{self}")
    }

    /// The key that a workflow id stands for; `None`: it is not as [`MessageKey::workflow_id`] writes it.
    #[must_use]
    pub fn from_workflow_id(id: &str) -> Option<Self> {
        let (tenant, key) = id.strip_prefix("message/")?.split_once('/')?;
        let part = |text| percent_decode_str(text).decode_utf8().ok().map(|part| part.into_owned());
        // Two spellings of one key would be two workflows: only the canonical one is a key.
        Self::new(part(tenant)?, part(key)?).ok().filter(|key| key.workflow_id() == id)
    }

    /// The message's id: always the same for a key, and never a digest's.
    #[must_use]
    pub fn message_id(&self) -> Uuid {
        Uuid::new_v5(&MESSAGE_NAMESPACE, self.to_string().as_bytes())
    }
}

/// `{tenant}/{key}`, each part percent-encoded.
impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        write!(f, "{}/{}", part(&self.tenant), part(&self.key))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_slash_in_a_part_cannot_reach_into_another_key() {
        let key = MessageKey::new("a/b".into(), "c".into()).unwrap();
        assert_eq!(key.workflow_id(), "message/a%2Fb/c");
        assert_ne!(key.message_id(), MessageKey::new("a".into(), "b/c".into()).unwrap().message_id());
        for wrong in ["message/a/b/c", "message/acme/%61", "digest/acme/activity/ann", "message/acme/"] {
            assert_eq!(MessageKey::from_workflow_id(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_message_key_over_255_bytes_is_refused() {
        let error = MessageKey::new("acme".into(), "ü".repeat(50)).unwrap_err();
        assert!(error.to_string().contains("255"), "{error}");
    }

    proptest! {
        #[test]
        fn every_key_comes_back_from_its_workflow_id(tenant in "\\PC{1,8}", key in "\\PC{1,8}") {
            if let Ok(key) = MessageKey::new(tenant, key) {
                prop_assert_eq!(MessageKey::from_workflow_id(&key.workflow_id()), Some(key));
            }
        }
    }
}
