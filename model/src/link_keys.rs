//! Signs tokens, so we can trust one coming back in a link, a bounce or an email (RFC 2104).
//!
//! A signature covers purpose, key and content, so a token is useless for another purpose or tenant. Mail
//! servers may change an address's case, so email tokens are short and in base32. See
//! [`UnsubscribeLink`](crate::UnsubscribeLink) for tokens in links.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    aead,
    digest::{SHA256, digest},
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use uuid::Uuid;

use crate::{foreign_text::clean_edges, process::fingerprint};

pub const VARIABLE: &str = "TIDINGS_LINK_KEYS";
const KEY_BYTES: usize = 32;
/// Separates our signatures from any other use of the same key.
const CONTEXT: &[u8] = b"tidings/link/v1/";
const SEAL: &[u8] = b"tidings/keys/v1/seal";
const NONCE: &[u8] = b"tidings/keys/v1/nonce";
const FINGERPRINT: &[u8] = b"tidings/keys/v1/fingerprint";
/// The first byte of a token.
pub(crate) const VERSION: u8 = 1;
/// 96 bits. RFC 2104 requires 80.
const MAC_BYTES: usize = 12;
/// Version, key id, message id and signature.
const TOKEN_BYTES: usize = 2 + 16 + MAC_BYTES;
/// With a separator, this leaves 15 of the 64 octets of a local part (RFC 5321 4.5.3.1.1).
pub const TOKEN_CHARS: usize = TOKEN_BYTES * 8 / 5;
/// Base32 (RFC 4648) in lower case.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// One signed byte. These values must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenPurpose {
    Report = b'r',
    /// Unsubscribe by email, in `List-Unsubscribe`.
    Leave = b'm',
    Unsubscribe = b'u',
    Suppress = b's',
    Preferences = b'p',
    View = b'v',
    /// The page to pin the digest type's cadence.
    AsBefore = b'b',
    Open = b'o',
    Click = b'c',
}

#[derive(Clone)]
pub struct LinkKeys(Vec<LinkKey>);

#[derive(Clone)]
pub(crate) struct LinkKey {
    pub id: u8,
    mac: hmac::Key,
    seal: Option<aead::LessSafeKey>,
    nonce: hmac::Key,
}

/// The error never shows the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected space-separated keys; `tidings keys new` prints a key")]
pub struct WrongKeys;

impl LinkKeys {
    /// In the format of [`VARIABLE`]. `None` if the system has no randomness.
    #[must_use]
    pub fn generate() -> Option<String> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(URL_SAFE_NO_PAD.encode(bytes))
    }

    #[must_use]
    pub fn sign(&self, purpose: TokenPurpose, tenant: &str, message: Uuid) -> String {
        let Some(key) = self.signing_key() else { return String::new() };
        let mut bytes = [&[VERSION, key.id][..], message.as_bytes()].concat();
        let mac = key.sign(purpose, &[&bytes, tenant.as_bytes()]);
        bytes.extend(&mac.as_ref()[..MAC_BYTES]);
        encode_base32(&bytes)
    }

    /// Runs in constant time.
    #[must_use]
    pub fn verify(&self, purpose: TokenPurpose, tenant: &str, token: &EmailToken) -> bool {
        let (said, mac) = token.0.split_at(TOKEN_BYTES - MAC_BYTES);
        self.with_id(token.0[1]).any(|key| key.verify_signature(purpose, &[said, tenant.as_bytes()], mac))
    }

    /// Fingerprints do not reveal the keys; the signing key comes first.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<String> {
        self.0.iter().map(|key| fingerprint(hmac::sign(&key.mac, FINGERPRINT).as_ref())).collect()
    }

    pub(crate) fn signing_key(&self) -> Option<&LinkKey> {
        self.0.first()
    }

    pub(crate) fn with_id(&self, id: u8) -> impl Iterator<Item = &LinkKey> {
        self.0.iter().filter(move |key| key.id == id)
    }
}

impl LinkKey {
    fn new(bytes: &[u8]) -> Self {
        let mac = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let derived = |label| hmac::sign(&mac, label);
        let seal = aead::UnboundKey::new(&aead::CHACHA20_POLY1305, derived(SEAL).as_ref()).ok();
        let nonce = hmac::Key::new(hmac::HMAC_SHA256, derived(NONCE).as_ref());
        Self { id: digest(&SHA256, bytes).as_ref()[0], seal: seal.map(aead::LessSafeKey::new), nonce, mac }
    }

    pub(crate) fn sign(&self, purpose: TokenPurpose, parts: &[&[u8]]) -> hmac::Tag {
        hmac::sign(&self.mac, &signing_input(purpose, parts))
    }

    /// `mac` may be a prefix. Runs in constant time.
    pub(crate) fn verify_signature(&self, purpose: TokenPurpose, parts: &[&[u8]], mac: &[u8]) -> bool {
        let right = self.sign(purpose, parts);
        let differs = right.as_ref().iter().zip(mac).fold(0, |differs, (right, mac)| differs | (right ^ mac));
        std::hint::black_box(differs) == 0
    }

    /// Encrypts `secret` and authenticates both. The nonce is a keyed hash of all inputs: the same input
    /// gives the same result, and different inputs never share a nonce.
    pub(crate) fn seal(&self, purpose: TokenPurpose, open: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
        let open = signing_input(purpose, &[open]);
        let nonce: [u8; aead::NONCE_LEN] =
            *hmac::sign(&self.nonce, &[&open, secret].concat()).as_ref().first_chunk()?;
        let mut sealed = secret.to_vec();
        let nonce_once = aead::Nonce::assume_unique_for_key(nonce);
        self.seal.as_ref()?.seal_in_place_append_tag(nonce_once, aead::Aad::from(open), &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Reverses [`LinkKey::seal`]. `None` for anything else, in constant time.
    pub(crate) fn open(&self, purpose: TokenPurpose, open: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<{ aead::NONCE_LEN }>()?;
        let open = aead::Aad::from(signing_input(purpose, &[open]));
        let mut secret = sealed.to_vec();
        let nonce = aead::Nonce::assume_unique_for_key(*nonce);
        let length = self.seal.as_ref()?.open_in_place(nonce, open, &mut secret).ok()?.len();
        secret.truncate(length);
        Some(secret)
    }
}

impl FromStr for LinkKeys {
    type Err = WrongKeys;

    fn from_str(text: &str) -> Result<Self, WrongKeys> {
        let words =
            text.split(|c: char| c.is_whitespace() || c == ',').map(clean_edges).filter(|word| !word.is_empty());
        let keys = words.map(|word| {
            let bytes = URL_SAFE_NO_PAD.decode(word).ok().filter(|bytes| bytes.len() == KEY_BYTES).ok_or(WrongKeys)?;
            Ok(LinkKey::new(&bytes))
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(WrongKeys) } else { Ok(Self(keys)) }
    }
}

/// Never shows a key.
impl fmt::Debug for LinkKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkKeys({})", self.0.len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmailToken([u8; TOKEN_BYTES]);

impl EmailToken {
    /// Ignores case.
    pub fn find_tokens(text: &str) -> impl Iterator<Item = Self> {
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(Self::parse_word)
    }

    fn parse_word(word: &str) -> Option<Self> {
        if word.len() != TOKEN_CHARS {
            return None;
        }
        let bytes: [u8; TOKEN_BYTES] = from_base32(word)?.try_into().ok()?;
        (bytes[0] == VERSION).then_some(Self(bytes))
    }

    /// As claimed by the token.
    #[must_use]
    pub fn message(&self) -> Uuid {
        Uuid::from_slice(&self.0[2..18]).unwrap_or_default()
    }
}

/// Only the last part may vary in length, otherwise this would be ambiguous.
fn signing_input(purpose: TokenPurpose, parts: &[&[u8]]) -> Vec<u8> {
    [CONTEXT, &[purpose as u8], &parts.concat()].concat()
}

/// Needs a multiple of five bytes.
fn encode_base32(bytes: &[u8]) -> String {
    let group = |group: &[u8]| {
        let number = group.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        (0..8).rev().map(move |place| char::from(DIGITS[usize::try_from(number >> (5 * place) & 31).unwrap_or(0)]))
    };
    bytes.chunks_exact(5).flat_map(group).collect()
}

fn from_base32(word: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte.to_ascii_lowercase());
    let digits = word.bytes().map(digit).collect::<Option<Vec<_>>>()?;
    let group = |group: &[usize]| {
        let number = group.iter().fold(0_u64, |number, digit| number << 5 | *digit as u64);
        number.to_be_bytes().into_iter().skip(3)
    };
    Some(digits.chunks_exact(8).flat_map(group).collect())
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

    fn token(text: &str) -> EmailToken {
        EmailToken::find_tokens(text).next().unwrap()
    }

    #[test]
    fn the_form_of_a_token_never_changes() {
        let signed = keys(OLD).sign(TokenPurpose::Report, "acme", MESSAGE);
        // Made with Python's hmac and base64.
        assert_eq!(signed, "aftaci2fm6e2wxppqerukz4jvpg66vn3bth7kacbdfa53qdy");
        assert_eq!(signed.len(), TOKEN_CHARS);
        assert_eq!(token(&signed).message(), MESSAGE);
    }

    #[test]
    fn the_first_key_signs_and_all_verify() {
        let old = token(&keys(OLD).sign(TokenPurpose::Report, "acme", MESSAGE));
        let both = keys(&format!("{NEW} {OLD}\n"));
        let new = token(&both.sign(TokenPurpose::Report, "acme", MESSAGE));
        assert_ne!(old, new);
        let verify = |keys: &LinkKeys, token| keys.verify(TokenPurpose::Report, "acme", token);
        assert!(verify(&both, &old) && verify(&both, &new) && verify(&keys(NEW), &new));
        assert!(!verify(&keys(NEW), &old) && !verify(&keys(OLD), &new));
    }

    #[test]
    fn keys_have_fingerprints_in_their_order() {
        let [old, new] = [OLD, NEW].map(|text| keys(text).fingerprints());
        assert_ne!(old, new);
        assert_eq!(keys(&format!("{NEW} {OLD}")).fingerprints(), [new, old].concat());
    }

    #[test]
    fn a_changed_token_is_refused_and_another_case_is_not() {
        let keys = keys(OLD);
        let signed = keys.sign(TokenPurpose::Report, "acme", MESSAGE);
        assert!(keys.verify(TokenPurpose::Report, "acme", &token(&signed.to_ascii_uppercase())));
        assert!(!keys.verify(TokenPurpose::Report, "other", &token(&signed)));
        for bit in 8..TOKEN_BYTES * 8 {
            let mut changed = token(&signed);
            changed.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!keys.verify(TokenPurpose::Report, "acme", &changed), "bit {bit}");
        }
    }

    #[test]
    fn a_token_is_found_in_an_address_and_nothing_else_is() {
        let signed = keys(OLD).sign(TokenPurpose::Report, "acme", MESSAGE);
        for address in [
            format!("<bounce+{signed}@mail.acme.example>"),
            format!("SRS0=x=y=acme.example=bounce-{signed}@forwarder.example"),
        ] {
            assert_eq!(
                EmailToken::find_tokens(&address).map(|token| token.message()).collect::<Vec<_>>(),
                [MESSAGE],
                "{address}"
            );
        }
        let zeros = "a".repeat(TOKEN_CHARS);
        for text in ["", "bounce@mail.acme.example", &signed[1..], &format!("{signed}a"), &zeros, &"1".repeat(48)] {
            assert_eq!(EmailToken::find_tokens(text).count(), 0, "{text}");
        }
    }

    #[test]
    fn a_new_key_is_valid_and_a_wrong_one_is_never_shown() {
        let new = LinkKeys::generate().unwrap();
        assert!(new.parse::<LinkKeys>().is_ok());
        for wrong in ["", " ", "hunter2", &new[1..], &format!("{new} hunter2")] {
            assert_eq!(wrong.parse::<LinkKeys>().err(), Some(WrongKeys), "{wrong}");
        }
        assert_eq!(format!("{:?}", keys(OLD)), "LinkKeys(1)");
    }

    proptest! {
        #[test]
        fn base32_loses_nothing(bytes: [u8; TOKEN_BYTES]) {
            prop_assert_eq!(from_base32(&encode_base32(&bytes)), Some(bytes.to_vec()));
        }

        #[test]
        fn no_text_makes_it_panic(text: String) {
            EmailToken::find_tokens(&text).for_each(drop);
        }
    }
}
