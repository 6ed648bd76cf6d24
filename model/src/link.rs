//! Links in messages: signed tokens which contain everything they need, so they work for years after the
//! message was purged (rule 42).

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

use crate::{
    Key,
    limits::check_id,
    link_keys::{self, LinkKeys, TokenPurpose, VERSION},
};

/// 128 bits of HMAC-SHA256.
const MAC_BYTES: usize = 16;
const HEAD_BYTES: usize = 3;
/// Longer tokens are rejected. The longest ids and click target need about 3,050.
const TOKEN_CHARS: usize = 3_200;
/// Separates texts, which never contain control characters.
const SEPARATOR: char = '\0';

#[derive(Clone, PartialEq, Eq)]
pub enum UnsubscribeLink {
    /// `generation` identifies who had the id
    /// ([`KeyFacts::generation`](crate::records::KeyFacts::generation)).
    Unsubscribe { key: Key, message: Uuid, generation: u64 },
    /// Stops a tenant's bulk messages to an address. The token is encrypted, because a link should not reveal
    /// it.
    Suppress { tenant: String, address: String, message: Uuid },
}

impl UnsubscribeLink {
    /// In base64url; `None` without a signing key. The same link always has the same token.
    #[must_use]
    pub fn token(&self, keys: &LinkKeys) -> Option<String> {
        let key = keys.signing_key()?;
        match self {
            Self::Unsubscribe { .. } => signed_token(keys, TokenPurpose::Unsubscribe, &self.signed_bytes()),
            Self::Suppress { .. } => {
                let head = [VERSION, key.id, TokenPurpose::Suppress as u8];
                let sealed = key.seal(TokenPurpose::Suppress, &head, &self.signed_bytes())?;
                Some(URL_SAFE_NO_PAD.encode([&head, &sealed[..]].concat()))
            }
        }
    }

    /// `None` unless one of the keys signed exactly these characters; the reason is not revealed.
    #[must_use]
    pub fn from_token(keys: &LinkKeys, token: &str) -> Option<Self> {
        let bytes = decode_token(token)?;
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let &[VERSION, id, purpose] = head else { return None };
        match purpose {
            b'u' => {
                let said =
                    keys.with_id(id).find_map(|key| verify_signature(key, TokenPurpose::Unsubscribe, head, rest))?;
                let (key, message, generation) = about_person(said)?;
                Some(Self::Unsubscribe { key, message, generation })
            }
            b's' => keys.with_id(id).find_map(|key| open_suppress_link(key, head, rest)),
            _ => None,
        }
    }

    #[must_use]
    pub fn message(&self) -> Uuid {
        match self {
            Self::Unsubscribe { message, .. } | Self::Suppress { message, .. } => *message,
        }
    }

    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Self::Unsubscribe { key, .. } => &key.tenant,
            Self::Suppress { tenant, .. } => tenant,
        }
    }

    fn signed_bytes(&self) -> Vec<u8> {
        match self {
            Self::Unsubscribe { key, message, generation } => signed_person_bytes(key, *message, *generation),
            Self::Suppress { tenant, address, message } => signed_bytes(*message, &[tenant, address]),
        }
    }
}

pub(crate) fn signed_bytes(message: Uuid, texts: &[&str]) -> Vec<u8> {
    [message.as_bytes(), texts.join(&SEPARATOR.to_string()).as_bytes()].concat()
}

/// Omits generation 0, because older tokens have none.
pub(crate) fn signed_person_bytes(key: &Key, message: Uuid, generation: u64) -> Vec<u8> {
    let Key { tenant, digest_type, user } = key;
    let number = generation.to_string();
    let mut texts = vec![tenant.as_str(), digest_type, user];
    texts.extend((generation > 0).then_some(number.as_str()));
    signed_bytes(message, &texts)
}

pub(crate) fn signed_token(keys: &LinkKeys, purpose: TokenPurpose, said: &[u8]) -> Option<String> {
    let key = keys.signing_key()?;
    let head = [VERSION, key.id, purpose as u8];
    let mac = key.sign(purpose, &[&head, said]);
    Some(URL_SAFE_NO_PAD.encode([&head, said, &mac.as_ref()[..MAC_BYTES]].concat()))
}

/// `None` unless one of the keys signed exactly these characters for this purpose.
pub(crate) fn verified_token<const N: usize>(
    keys: &LinkKeys,
    purpose: TokenPurpose,
    token: &str,
) -> Option<(Uuid, [String; N])> {
    split_texts(&verified_bytes(keys, purpose, token)?)
}

/// Returns key, message id and the person's generation.
pub(crate) fn verified_person_token(keys: &LinkKeys, purpose: TokenPurpose, token: &str) -> Option<(Key, Uuid, u64)> {
    about_person(&verified_bytes(keys, purpose, token)?)
}

fn verified_bytes(keys: &LinkKeys, purpose: TokenPurpose, token: &str) -> Option<Vec<u8>> {
    let bytes = decode_token(token)?;
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let &[VERSION, id, byte] = head else { return None };
    let mut keys = keys.with_id(id).filter(|_| byte == purpose as u8);
    keys.find_map(|key| verify_signature(key, purpose, head, rest)).map(<[u8]>::to_vec)
}

fn decode_token(token: &str) -> Option<Vec<u8>> {
    (token.len() <= TOKEN_CHARS).then(|| URL_SAFE_NO_PAD.decode(token).ok())?
}

fn verify_signature<'a>(
    key: &link_keys::LinkKey,
    purpose: TokenPurpose,
    head: &[u8],
    rest: &'a [u8],
) -> Option<&'a [u8]> {
    let (said, mac) = rest.split_last_chunk::<MAC_BYTES>()?;
    key.verify_signature(purpose, &[head, said], mac).then_some(said)
}

/// Never shows an address.
impl fmt::Debug for UnsubscribeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsubscribe { key, message, .. } => write!(f, "Unsubscribe({key}, {message})"),
            Self::Suppress { tenant, message, .. } => write!(f, "Suppress({tenant}, {message})"),
        }
    }
}

fn open_suppress_link(key: &link_keys::LinkKey, head: &[u8], rest: &[u8]) -> Option<UnsubscribeLink> {
    let (message, [tenant, address]) = split_texts(&key.open(TokenPurpose::Suppress, head, rest)?)?;
    check_id("tenant", &tenant).ok()?;
    Some(UnsubscribeLink::Suppress { tenant, address, message })
}

/// Parses the bytes from [`signed_person_bytes`].
fn about_person(said: &[u8]) -> Option<(Key, Uuid, u64)> {
    let (message, texts) = split_signed(said)?;
    let (key, generation) = match &texts[..] {
        [key @ .., number] if key.len() == 3 => (key, number.parse().ok()?),
        key => (key, 0),
    };
    let [tenant, digest_type, user] = key else { return None };
    Some((Key::new(tenant.clone(), digest_type.clone(), user.clone()).ok()?, message, generation))
}

fn split_texts<const N: usize>(said: &[u8]) -> Option<(Uuid, [String; N])> {
    let (message, texts) = split_signed(said)?;
    Some((message, texts.try_into().ok()?))
}

fn split_signed(said: &[u8]) -> Option<(Uuid, Vec<String>)> {
    let (message, texts) = said.split_first_chunk::<16>()?;
    let texts = std::str::from_utf8(texts).ok()?.split(SEPARATOR).map(str::to_owned).collect();
    Some((Uuid::from_bytes(*message), texts))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OLD: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    const NEW: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE";
    const MESSAGE: Uuid = Uuid::from_u128(0x0123_4567_89ab_5def_8123_4567_89ab_cdef);

    fn keys(text: &str) -> LinkKeys {
        text.parse().unwrap()
    }

    fn digest(tenant: &str, digest_type: &str, user: &str) -> UnsubscribeLink {
        let key = Key::new(tenant.into(), digest_type.into(), user.into()).unwrap();
        UnsubscribeLink::Unsubscribe { key, message: MESSAGE, generation: 0 }
    }

    /// The link for an id's next person.
    fn next(link: UnsubscribeLink) -> UnsubscribeLink {
        match link {
            UnsubscribeLink::Unsubscribe { key, message, generation } => {
                UnsubscribeLink::Unsubscribe { key, message, generation: generation + 1 }
            }
            single @ UnsubscribeLink::Suppress { .. } => single,
        }
    }

    fn single(tenant: &str, address: &str) -> UnsubscribeLink {
        UnsubscribeLink::Suppress { tenant: tenant.into(), address: address.into(), message: MESSAGE }
    }

    /// A link of either kind, with ids of every length and any allowed characters.
    fn any_link() -> impl Strategy<Value = UnsubscribeLink> {
        let id = "[^\\pC]{1,20}";
        let message = any::<u128>().prop_map(Uuid::from_u128);
        prop_oneof![
            (id, id, id, message.clone(), 0..3_u64).prop_filter_map(
                "too long",
                |(tenant, digest_type, user, message, generation)| {
                    Some(UnsubscribeLink::Unsubscribe {
                        key: Key::new(tenant, digest_type, user).ok()?,
                        message,
                        generation,
                    })
                }
            ),
            (id, "[a-z.+]{1,60}@[a-z]{1,20}\\.example", message)
                .prop_map(|(tenant, address, message)| UnsubscribeLink::Suppress { tenant, address, message }),
        ]
    }

    /// The token with one bit flipped.
    fn flipped(token: &str, bit: usize) -> String {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).unwrap();
        let bit = bit % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn the_form_of_a_token_never_changes() {
        // Made with Python's hmac and with PyNaCl.
        for (link, token) in [
            (
                digest("acme", "activity", "ann"),
                "AWZ1ASNFZ4mrXe-BI0VniavN72FjbWUAYWN0aXZpdHkAYW5upA2-PMHof7wlTdNx2M2PeA",
            ),
            (
                next(digest("acme", "activity", "ann")),
                "AWZ1ASNFZ4mrXe-BI0VniavN72FjbWUAYWN0aXZpdHkAYW5uADFJPNXN4uYkPXFZFIW-4V_H",
            ),
            (
                single("acme", "ann@example.net"),
                "AWZz4ZxQ-wVb12VGQCD_pO9Q_rBuxK4nB7CAfyAwqb_NH2YzozoDNmhcqheDJ-gpjWsMIYR25DnDxFJ7R1JnHrsOUQ",
            ),
        ] {
            assert_eq!(link.token(&keys(OLD)).unwrap(), token);
            assert!(UnsubscribeLink::from_token(&keys(OLD), token) == Some(link));
        }
    }

    #[test]
    fn the_first_key_signs_and_all_verify() {
        for link in [digest("acme", "activity", "ann"), single("acme", "ann@example.net")] {
            let both = keys(&format!("{NEW} {OLD}"));
            let (old, new) = (link.token(&keys(OLD)).unwrap(), link.token(&both).unwrap());
            assert_ne!(old, new);
            let reads = |keys: &LinkKeys, token| UnsubscribeLink::from_token(keys, token).is_some();
            assert!(reads(&both, &old) && reads(&both, &new) && reads(&keys(NEW), &new));
            assert!(!reads(&keys(NEW), &old) && !reads(&keys(OLD), &new));
        }
    }

    #[test]
    fn every_changed_bit_and_every_cut_of_a_token_is_refused() {
        for link in [
            digest("acme", "activity", "ann"),
            next(digest("acme", "activity", "ann")),
            single("acme", "ann@example.net"),
        ] {
            let token = link.token(&keys(OLD)).unwrap();
            for bit in 0..token.len() * 6 / 8 * 8 {
                assert!(UnsubscribeLink::from_token(&keys(OLD), &flipped(&token, bit)).is_none(), "bit {bit}");
            }
            for cut in 0..token.len() {
                assert!(UnsubscribeLink::from_token(&keys(OLD), &token[..cut]).is_none(), "cut {cut}");
            }
            for more in ["A", "AAAA", "=", " ", "/"] {
                assert!(UnsubscribeLink::from_token(&keys(OLD), &format!("{token}{more}")).is_none(), "{more:?}");
            }
        }
    }

    #[test]
    fn a_token_with_another_purpose_version_or_key_id_is_refused() {
        for link in [digest("acme", "activity", "ann"), single("acme", "ann@example.net")] {
            let token = URL_SAFE_NO_PAD.decode(link.token(&keys(OLD)).unwrap()).unwrap();
            for place in 0..HEAD_BYTES {
                for byte in (0..=u8::MAX).filter(|byte| *byte != token[place]) {
                    let mut changed = token.clone();
                    changed[place] = byte;
                    let changed = URL_SAFE_NO_PAD.encode(changed);
                    assert!(UnsubscribeLink::from_token(&keys(OLD), &changed).is_none(), "byte {place} is {byte}");
                }
            }
        }
    }

    #[test]
    fn a_sealed_token_hides_its_address() {
        let bytes = URL_SAFE_NO_PAD.decode(single("acme", "ann@example.net").token(&keys(OLD)).unwrap()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("ann"));
    }

    #[test]
    fn the_longest_token_is_read() {
        for link in [
            next(digest(&"t".repeat(80), &"d".repeat(80), &"u".repeat(85))),
            single(&"ü".repeat(127), &"a".repeat(254)),
        ] {
            let token = link.token(&keys(OLD)).unwrap();
            assert!(token.len() <= TOKEN_CHARS && UnsubscribeLink::from_token(&keys(OLD), &token) == Some(link));
        }
    }

    proptest! {
        #[test]
        fn a_token_says_what_was_signed(link in any_link()) {
            let token = link.token(&keys(OLD)).unwrap();
            prop_assert_eq!(&link.token(&keys(OLD)).unwrap(), &token);
            prop_assert!(UnsubscribeLink::from_token(&keys(OLD), &token) == Some(link));
            prop_assert!(UnsubscribeLink::from_token(&keys(NEW), &token).is_none());
        }

        #[test]
        fn two_links_never_share_a_token(one in any_link(), other in any_link()) {
            prop_assume!(one != other);
            prop_assert_ne!(one.token(&keys(OLD)), other.token(&keys(OLD)));
        }

        #[test]
        fn a_changed_bit_of_any_token_is_refused(link in any_link(), bit: usize) {
            let token = link.token(&keys(OLD)).unwrap();
            prop_assert!(UnsubscribeLink::from_token(&keys(OLD), &flipped(&token, bit)).is_none());
        }

        #[test]
        fn a_signature_on_another_links_bytes_is_refused(one in any_link(), other in any_link()) {
            let decoded = |link: &UnsubscribeLink| URL_SAFE_NO_PAD.decode(link.token(&keys(OLD)).unwrap()).unwrap();
            let (one, other) = (decoded(&one), decoded(&other));
            prop_assume!(one != other);
            let mixed = [&one[..one.len() - MAC_BYTES], &other[other.len() - MAC_BYTES..]].concat();
            prop_assert!(UnsubscribeLink::from_token(&keys(OLD), &URL_SAFE_NO_PAD.encode(mixed)).is_none());
        }

        #[test]
        fn no_text_is_read_without_a_key(text in "\\PC{0,200}|[A-Za-z0-9_-]{0,200}|AQ[A-Za-z0-9_-]{0,200}") {
            prop_assert!(UnsubscribeLink::from_token(&keys(OLD), &text).is_none());
        }

        #[test]
        fn ids_do_not_run_into_each_other(parts in "[a-z]{3,12}", first in 1..8_usize, second in 1..8_usize) {
            let split = |at: usize| {
                let at = 1 + at % (parts.len() - 2);
                digest(&parts[..at], &parts[at..=at], &parts[at + 1..])
            };
            let tokens = [split(first), split(second)].map(|link| link.token(&keys(OLD)));
            prop_assert_eq!(tokens[0] == tokens[1], split(first) == split(second));
        }
    }
}
