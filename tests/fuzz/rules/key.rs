//! Keys: their percent-encoding is one to one, bounded, and keeps tenants apart.

use tidings_model::{Key, MessageKey, limits::WORKFLOW_ID_BYTES};

use super::{lines::lines, presentable::assert_presentable};

/// Lines: tenant, digest type and user of one key, and of another; then anything, to be read as a workflow id.
///
/// # Panics
/// Where a rule is broken.
pub fn key(bytes: &[u8]) {
    let mut parts = lines(bytes);
    parts.resize(parts.len().max(7), String::new());
    let [tenant, digest, user, other_tenant, other_digest, other_user, anything, ..] = &parts[..] else { return };
    let one = digest_key(tenant, digest, user);
    let other = digest_key(other_tenant, other_digest, other_user);
    if let (Some(one), Some(other)) = (&one, &other) {
        apart(one, other);
    }
    let one = message_key(tenant, user);
    let other = message_key(other_tenant, other_user);
    if let (Some(one), Some(other)) = (one, other) {
        assert_eq!(one == other, one.workflow_id() == other.workflow_id(), "{one:?} {other:?}");
        assert_eq!(one == other, one.message_id() == other.message_id(), "{one:?} {other:?}");
    }
    any_text(anything);
}

fn digest_key(tenant: &str, digest: &str, user: &str) -> Option<Key> {
    let made = Key::new(tenant.to_owned(), digest.to_owned(), user.to_owned());
    let encoded = [tenant, digest, user].map(encoded_bytes).iter().sum::<usize>() + "digest///".len();
    expect(made.as_ref().err().map(ToString::to_string), &[tenant, digest, user], encoded);
    let key = made.ok()?;
    let id = key.workflow_id();
    assert_eq!(id.len(), encoded, "{id}");
    assert_segments(&id, 4);
    assert_eq!(Key::from_workflow_id(&id).as_ref(), Ok(&key));
    assert_eq!(key.to_string().parse().as_ref(), Ok(&key));
    Some(key)
}

fn message_key(tenant: &str, key: &str) -> Option<MessageKey> {
    let made = MessageKey::new(tenant.to_owned(), key.to_owned());
    let encoded = encoded_bytes(tenant) + encoded_bytes(key) + "message//".len();
    expect(made.as_ref().err().map(ToString::to_string), &[tenant, key], encoded);
    let key = made.ok()?;
    assert_segments(&key.workflow_id(), 3);
    assert_eq!(MessageKey::from_workflow_id(&key.workflow_id()).as_ref(), Some(&key));
    assert_eq!(Key::from_workflow_id(&key.workflow_id()).ok(), None, "a message's id is no digest's");
    Some(key)
}

/// A key exists exactly where the contract says so, and else there is a reason that names what is wrong.
fn expect(refused: Option<String>, parts: &[&str], encoded: usize) {
    let empty = parts.iter().any(|part| part.is_empty());
    let control = parts.iter().any(|part| part.contains(char::is_control));
    let long = parts.iter().any(|part| part.len() > WORKFLOW_ID_BYTES) || encoded > WORKFLOW_ID_BYTES;
    assert_eq!(refused.is_some(), empty || control || long, "{parts:?}: {refused:?}");
    let Some(reason) = refused else { return };
    let named = [(empty, "is required"), (control, "control character"), (long, "the limit is 255")];
    assert!(named.iter().any(|(is, says)| *is && reason.contains(says)), "{reason}");
    assert_presentable("a refusal", &reason, 200);
}

/// By RFC 3986: three bytes for each that is not unreserved.
fn encoded_bytes(text: &str) -> usize {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if unreserved(byte) { 1 } else { 3 }).sum()
}

fn assert_segments(id: &str, count: usize) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%/".contains(&byte);
    assert!(id.bytes().all(plain), "{id}");
    assert_eq!(id.split('/').filter(|segment| !segment.is_empty()).count(), count, "{id}");
}

/// Different keys have different ids, and those of different tenants share no folder.
fn apart(one: &Key, other: &Key) {
    assert_eq!(one == other, one.workflow_id() == other.workflow_id(), "{one:?} {other:?}");
    assert_eq!(one == other, one.digest_id("run", 0) == other.digest_id("run", 0), "{one:?} {other:?}");
    let folder = |key: &Key| key.workflow_id().split('/').take(2).map(|part| format!("{part}/")).collect::<String>();
    assert_eq!(one.tenant == other.tenant, other.workflow_id().starts_with(&folder(one)), "{one:?} {other:?}");
}

/// Asserts that a parsed key has the same spelling again.
fn any_text(text: &str) {
    if let Ok(key) = Key::from_workflow_id(text) {
        assert_eq!(key.workflow_id(), text);
    }
    if let Some(key) = MessageKey::from_workflow_id(text) {
        assert_eq!(key.workflow_id(), text);
    }
    if let Ok(key) = text.parse::<Key>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}
