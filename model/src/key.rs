//! A digest's key and its workflow id.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{limits, limits::InvalidField};

/// All except unreserved characters (RFC 3986).
pub(crate) const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// UUIDv5 namespace (RFC 9562). Random; must never change.
const DIGEST_NAMESPACE: Uuid = Uuid::from_u128(0x2b1c_93f4_6a52_5d0e_9c57_8d4e_11f0_7a63);

/// Must never change.
const THREAD_NAMESPACE: Uuid = Uuid::from_u128(0x9e0d_52c7_1a38_5b64_a7f1_3c90_d46e_88b5);

/// (tenant, digest type, user). A key has at most one open window, and never shares an email with another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Key {
    /// The customer or product that the events belong to.
    pub tenant: String,
    /// The digest type as named in `tidings.toml`.
    pub digest_type: String,
    /// The recipient's id in the tenant's directory.
    pub user: String,
}

impl Key {
    /// # Errors
    /// Names the field and the limit: an id is empty or has a control character, or the encoded workflow id
    /// exceeds [`limits::WORKFLOW_ID_BYTES`].
    pub fn new(tenant: String, digest_type: String, user: String) -> Result<Self, InvalidField> {
        limits::check_id("tenant", &tenant)?;
        limits::check_id("digest", &digest_type)?;
        limits::check_id("user", &user)?;
        let key = Self { tenant, digest_type, user };
        limits::check_bytes(
            "tenant, digest and user as a workflow id",
            key.workflow_id().len(),
            limits::WORKFLOW_ID_BYTES,
        )?;
        Ok(key)
    }

    pub(crate) fn of_wire(
        tenant: &str,
        digest: &str,
        user: &str,
        default: Option<&Self>,
    ) -> Result<Self, InvalidField> {
        let part = |own: &str, inherited: fn(&Self) -> &String| match default {
            Some(key) if own.is_empty() => inherited(key).clone(),
            _ => own.to_owned(),
        };
        Self::new(part(tenant, |key| &key.tenant), part(digest, |key| &key.digest_type), part(user, |key| &key.user))
    }

    /// `digest/{tenant}/{digest_type}/{user}`, each part percent-encoded.
    #[must_use]
    pub fn workflow_id(&self) -> String {
        format!("digest/{self}")
    }

    /// A prefix of this tenant's workflow ids only.
    #[must_use]
    pub fn workflow_ids_of(tenant: &str) -> String {
        format!("digest/{}/", utf8_percent_encode(tenant, ESCAPED))
    }

    /// # Errors
    /// If the id is not exactly as [`Key::workflow_id`] writes it.
    pub fn from_workflow_id(id: &str) -> Result<Self, InvalidField> {
        let key: Self = id.strip_prefix("digest/").ok_or_else(|| InvalidField::workflow_id(id))?.parse()?;
        // Two spellings of one key would create two workflows.
        if key.workflow_id() == id { Ok(key) } else { Err(InvalidField::workflow_id(id)) }
    }

    /// `window` counts the windows in the chain of runs which began with `first_run_id`. The id stays the
    /// same after a replay, reset or retry.
    ///
    /// It does not depend on the window's opening time or content, because a retried workflow task has a
    /// different clock and more events.
    #[must_use]
    pub fn digest_id(&self, first_run_id: &str, window: u64) -> Uuid {
        let name = format!("{}\n{first_run_id}\n{window}", self.workflow_id());
        Uuid::new_v5(&DIGEST_NAMESPACE, name.as_bytes())
    }

    /// Identifies the email thread about an entity.
    #[must_use]
    pub fn thread_id(&self, entity_type: &str, entity_id: &str) -> Uuid {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        let name = format!("{}\n{}\n{}", self.workflow_id(), part(entity_type), part(entity_id));
        Uuid::new_v5(&THREAD_NAMESPACE, name.as_bytes())
    }
}

/// `{tenant}/{digest_type}/{user}`, each part percent-encoded.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        write!(f, "{}/{}/{}", part(&self.tenant), part(&self.digest_type), part(&self.user))
    }
}

impl FromStr for Key {
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<Self, InvalidField> {
        let parts: Vec<_> = text.split('/').map(|part| percent_decode_str(part).decode_utf8()).collect();
        match parts.as_slice() {
            [Ok(tenant), Ok(digest_type), Ok(user)] => {
                Self::new(tenant.to_string(), digest_type.to_string(), user.to_string())
            }
            _ => Err(InvalidField::key(text)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct PersonId {
    pub tenant: String,
    pub user: String,
}

impl PersonId {
    /// # Errors
    /// Names the field and the limit.
    pub fn new(tenant: String, user: String) -> Result<Self, InvalidField> {
        limits::check_id("tenant", &tenant)?;
        limits::check_id("user", &user)?;
        Ok(Self { tenant, user })
    }

    #[must_use]
    pub fn from_key(key: &Key) -> Self {
        Self { tenant: key.tenant.clone(), user: key.user.clone() }
    }

    /// Prefix of the reason when a person moves to this id. The next claim of their keys includes events
    /// dropped with it.
    #[must_use]
    pub fn move_reason(&self) -> String {
        format!("moved to {self}: ")
    }

    #[must_use]
    pub fn key(&self, digest_type: &str) -> Key {
        Key { tenant: self.tenant.clone(), digest_type: digest_type.to_owned(), user: self.user.clone() }
    }
}

/// `{tenant}/{user}`, each part percent-encoded.
impl fmt::Display for PersonId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |text| utf8_percent_encode(text, ESCAPED);
        write!(f, "{}/{}", part(&self.tenant), part(&self.user))
    }
}

impl FromStr for PersonId {
    type Err = InvalidField;

    fn from_str(text: &str) -> Result<Self, InvalidField> {
        let parts: Vec<_> = text.split('/').map(|part| percent_decode_str(part).decode_utf8()).collect();
        let [Ok(tenant), Ok(user)] = parts.as_slice() else {
            return Err(InvalidField::new(
                "person",
                format!("{text:?} is not TENANT/USER with each part percent-encoded"),
            ));
        };
        Self::new(tenant.to_string(), user.to_string())
    }
}

/// UUIDv5 namespace (RFC 9562). Random; must never change.
const MESSAGE_NAMESPACE: Uuid = Uuid::from_u128(0x6f2d_17b8_0c94_5e3a_b1d7_4a86_93ce_50f2);

/// Everything submitted with the same idempotency key is one message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageKey {
    /// The customer or product that the message belongs to.
    pub tenant: String,
    /// The idempotency key, which the sender made up.
    pub key: String,
}

impl MessageKey {
    /// # Errors
    /// Names the field and the limit: a part is empty or has a control character, or the encoded workflow id
    /// exceeds [`limits::WORKFLOW_ID_BYTES`].
    pub fn new(tenant: String, key: String) -> Result<Self, InvalidField> {
        limits::check_id("tenant", &tenant)?;
        limits::check_id("key", &key)?;
        let key = Self { tenant, key };
        limits::check_bytes("tenant and key as a workflow id", key.workflow_id().len(), limits::WORKFLOW_ID_BYTES)?;
        Ok(key)
    }

    /// `message/{tenant}/{key}`, each part percent-encoded.
    #[must_use]
    pub fn workflow_id(&self) -> String {
        format!("message/{self}")
    }

    #[must_use]
    pub fn from_workflow_id(id: &str) -> Option<Self> {
        let (tenant, key) = id.strip_prefix("message/")?.split_once('/')?;
        let part = |text| percent_decode_str(text).decode_utf8().ok().map(|part| part.into_owned());
        // Two spellings of one key would create two workflows.
        Self::new(part(tenant)?, part(key)?).ok().filter(|key| key.workflow_id() == id)
    }

    /// Depends only on the key; never equals a digest's id.
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
    fn a_slash_in_an_id_cannot_reach_into_another_key() {
        let key = Key::new("a/b".into(), "c".into(), "d".into()).unwrap();
        assert_eq!(key.workflow_id(), "digest/a%2Fb/c/d");
        assert!(Key::from_workflow_id("digest/a/b/c/d").is_err());
    }

    #[test]
    fn only_the_canonical_spelling_of_a_workflow_id_is_a_key() {
        assert!(Key::from_workflow_id("digest/acme/activity/%61nn").is_err());
        assert!(Key::from_workflow_id("digest/acme/activity/ann").is_ok());
    }

    #[test]
    fn each_entity_of_a_key_has_a_thread_of_its_own() {
        let key = |user: &str| Key::new("acme".into(), "alerts".into(), user.into()).unwrap();
        let thread = key("ann").thread_id("check", "db1");
        assert_eq!(thread, key("ann").thread_id("check", "db1"));
        for other in [
            key("bob").thread_id("check", "db1"),
            key("ann").thread_id("check", "db2"),
            key("ann").thread_id("check\ndb1", ""),
            key("ann").thread_id("", "check\ndb1"),
        ] {
            assert_ne!(thread, other);
        }
    }

    #[test]
    fn an_id_over_255_bytes_is_refused() {
        let error = Key::new("acme".into(), "activity".into(), "ü".repeat(50)).unwrap_err();
        assert!(error.to_string().contains("255"), "{error}");
    }

    proptest! {
        #[test]
        fn every_key_comes_back_from_its_workflow_id(tenant in "\\PC{1,8}", digest in "\\PC{1,8}", user in "\\PC{1,8}") {
            if let Ok(key) = Key::new(tenant, digest, user) {
                prop_assert_eq!(Key::from_workflow_id(&key.workflow_id()).unwrap(), key);
            }
        }
    }
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
        fn every_message_key_comes_back_from_its_workflow_id(tenant in "\\PC{1,8}", key in "\\PC{1,8}") {
            if let Ok(key) = MessageKey::new(tenant, key) {
                prop_assert_eq!(MessageKey::from_workflow_id(&key.workflow_id()), Some(key));
            }
        }
    }
}
