//! Public keys of an issuer, as a JWK set has them (RFC 7517, RFC 7518, RFC 8037).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Keys of a set that are read.
const KEYS: usize = 64;
/// Bytes of an RSA modulus.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes of a number on P-256, and of a public key of Ed25519.
const COORDINATE: usize = 32;

/// The algorithms that count. `none` and those of shared secrets do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm with this name in the header of a token. RFC 9864 has a new name for Ed25519.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A key that verifies signatures.
#[derive(Debug)]
pub(super) struct Key {
    pub kid: String,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Reads the keys of a JWK set. A key that is of no use here is left out. `None`: the text is not a set.
pub(super) fn read(set: &[u8]) -> Option<Vec<Key>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(set).ok()?;
    let keys = set.keys.into_iter().filter_map(|key| Key::of(serde_json::from_value(key).ok()?));
    Some(keys.take(KEYS).collect())
}

impl Key {
    fn of(jwk: Jwk) -> Option<Self> {
        let number = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let coordinate = |text| number(text).filter(|bytes| bytes.len() == COORDINATE);
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", None) => {
                let (n, e) = (significant(&number(jwk.n)?), significant(&number(jwk.e)?));
                MODULUS.contains(&n.len()).then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => Material::P256([vec![4], coordinate(jwk.x)?, coordinate(jwk.y)?].concat()),
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(jwk.x)?),
            _ => return None,
        };
        let key = Self { kid: jwk.kid, material };
        let signs = jwk.usage.is_none_or(|usage| usage == "sig");
        let named = jwk.alg.is_none_or(|alg| Algorithm::named(&alg) == Some(key.algorithm()));
        (signs && named).then_some(key)
    }

    /// The only algorithm that the key is for.
    pub const fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Reports if the signature of the message is by this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// A number without the zeros before it, which some issuers write and `ring` refuses.
fn significant(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}
