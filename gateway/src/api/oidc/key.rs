//! Public keys from a JWK set (RFC 7517, RFC 7518, RFC 8037).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Most keys read from a set.
const KEYS: usize = 64;
/// Allowed length of an RSA modulus, in bytes.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes in a P-256 coordinate, and in an Ed25519 public key.
const COORDINATE: usize = 32;
/// Bytes in a P-384 coordinate.
const COORDINATE_384: usize = 48;

/// Accepted algorithms. `none` and symmetric ones (HMAC) are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// Looks up an algorithm by its `alg` header. Ed25519 has a second name since RFC 9864.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Key {
    pub kid: String,
    material: Material,
    /// If this is missing, an RSA key works for both RSA algorithms.
    alg: Option<Algorithm>,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Material {
    const fn algorithms(&self) -> &'static [Algorithm] {
        match self {
            Self::Rsa { .. } => &[Algorithm::Rs256, Algorithm::Ps256],
            Self::P256(_) => &[Algorithm::Es256],
            Self::P384(_) => &[Algorithm::Es384],
            Self::Ed25519(_) => &[Algorithm::EdDsa],
        }
    }
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

/// Skips unusable keys. Returns `None` if this is not a JWK set.
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
        let of_size = |text, size| number(text).filter(|bytes| bytes.len() == size);
        let point = |size| Some([vec![4], of_size(jwk.x.clone(), size)?, of_size(jwk.y.clone(), size)?].concat());
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", None) => {
                let (n, e) = (significant(&number(jwk.n)?), significant(&number(jwk.e)?));
                MODULUS.contains(&n.len()).then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => Material::P256(point(COORDINATE)?),
            ("EC", Some("P-384")) => Material::P384(point(COORDINATE_384)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(of_size(jwk.x, COORDINATE)?),
            _ => return None,
        };
        let signs = jwk.usage.is_none_or(|usage| usage == "sig");
        let alg = match jwk.alg {
            Some(name) => Some(Algorithm::named(&name).filter(|alg| material.algorithms().contains(alg))?),
            None => None,
        };
        signs.then_some(Self { kid: jwk.kid, material, alg })
    }

    pub fn is_for(&self, algorithm: Algorithm) -> bool {
        self.alg.is_none_or(|alg| alg == algorithm) && self.material.algorithms().contains(&algorithm)
    }

    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        let verified = match &self.material {
            Material::Rsa { n, e } if algorithm == Algorithm::Ps256 => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
            }
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature),
            Material::P384(point) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature),
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// Strips leading zeros, because some issuers write them and `ring` rejects this.
fn significant(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}
