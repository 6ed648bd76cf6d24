//! Tokens of links: only the exact characters that a key signed are read, and they say what was signed.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tidings_model::{Key, UnsubscribeLink, link_keys::LinkKeys};

use super::lines::lines;

const KEYS: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Lines: a token; tenant, digest type and user of a link; an address; a number that says which bit is changed.
///
/// # Panics
/// Where a rule is broken.
pub fn token(bytes: &[u8]) {
    let keys: LinkKeys = KEYS.parse().expect("two keys");
    let mut parts = lines(bytes);
    parts.resize(parts.len().max(6), String::new());
    let [anything, tenant, digest_type, user, address, bit, ..] = &parts[..] else { return };
    if let Some(link) = UnsubscribeLink::from_token(&keys, anything) {
        let canonical =
            [KEYS, KEYS.split(' ').nth(1).unwrap_or_default()].map(|keys| link.token(&keys.parse().expect("keys")));
        assert!(canonical.iter().flatten().any(|token| token == anything), "two spellings of one token");
    }
    let Ok(key) = Key::new(tenant.clone(), digest_type.clone(), user.clone()) else { return };
    let message = uuid::Uuid::from_u128(7);
    let bit = bit.parse().unwrap_or_default();
    let generation = (bit % 3) as u64;
    signed(&keys, &UnsubscribeLink::Unsubscribe { key, message, generation }, bit);
    if !address.contains(char::is_control) && address.len() <= 254 {
        signed(&keys, &UnsubscribeLink::Suppress { tenant: tenant.clone(), address: address.clone(), message }, bit);
    }
}

fn signed(keys: &LinkKeys, link: &UnsubscribeLink, bit: usize) {
    let token = link.token(keys).expect("a key signs");
    assert!(UnsubscribeLink::from_token(keys, &token).as_ref() == Some(link), "a link is read as another one");
    let mut bytes = URL_SAFE_NO_PAD.decode(&token).expect("a token is base64url");
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    assert!(UnsubscribeLink::from_token(keys, &URL_SAFE_NO_PAD.encode(bytes)).is_none(), "bit {bit} changes nothing");
}
