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
pub(super) enum SignatureAlgorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl SignatureAlgorithm {
    /// Ed25519 has a second name since RFC 9864.
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
pub(super) struct VerifyingKey {
    pub kid: String,
    material: KeyMaterial,
    /// If this is missing, an RSA key works for both RSA algorithms.
    alg: Option<SignatureAlgorithm>,
}

#[derive(Debug)]
enum KeyMaterial {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl KeyMaterial {
    const fn algorithms(&self) -> &'static [SignatureAlgorithm] {
        match self {
            Self::Rsa { .. } => &[SignatureAlgorithm::Rs256, SignatureAlgorithm::Ps256],
            Self::P256(_) => &[SignatureAlgorithm::Es256],
            Self::P384(_) => &[SignatureAlgorithm::Es384],
            Self::Ed25519(_) => &[SignatureAlgorithm::EdDsa],
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
pub(super) fn parse_set(set: &[u8]) -> Option<Vec<VerifyingKey>> {
    #[derive(Deserialize)]
    struct JwkSet {
        keys: Vec<Value>,
    }
    let set: JwkSet = serde_json::from_slice(set).ok()?;
    let keys = set.keys.into_iter().filter_map(|key| VerifyingKey::from_jwk(serde_json::from_value(key).ok()?));
    Some(keys.take(KEYS).collect())
}

impl VerifyingKey {
    fn from_jwk(jwk: Jwk) -> Option<Self> {
        let number = |text: Option<String>| URL_SAFE_NO_PAD.decode(text?).ok();
        let of_size = |text, size| number(text).filter(|bytes| bytes.len() == size);
        let point = |size| Some([vec![4], of_size(jwk.x.clone(), size)?, of_size(jwk.y.clone(), size)?].concat());
        let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", None) => {
                let (n, e) = (strip_zeros(&number(jwk.n)?), strip_zeros(&number(jwk.e)?));
                MODULUS.contains(&n.len()).then_some(KeyMaterial::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => KeyMaterial::P256(point(COORDINATE)?),
            ("EC", Some("P-384")) => KeyMaterial::P384(point(COORDINATE_384)?),
            ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(of_size(jwk.x, COORDINATE)?),
            _ => return None,
        };
        let signs = jwk.usage.is_none_or(|usage| usage == "sig");
        let alg = match jwk.alg {
            Some(name) => Some(SignatureAlgorithm::named(&name).filter(|alg| material.algorithms().contains(alg))?),
            None => None,
        };
        signs.then_some(Self { kid: jwk.kid, material, alg })
    }

    pub fn is_for(&self, algorithm: SignatureAlgorithm) -> bool {
        self.alg.is_none_or(|alg| alg == algorithm) && self.material.algorithms().contains(&algorithm)
    }

    pub fn verify_signature(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.is_for(algorithm) {
            return false;
        }
        let verified = match &self.material {
            KeyMaterial::Rsa { n, e } if algorithm == SignatureAlgorithm::Ps256 => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
            }
            KeyMaterial::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            KeyMaterial::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            KeyMaterial::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            KeyMaterial::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        verified.is_ok()
    }
}

/// Strips leading zeros, because some issuers write them and `ring` rejects this.
fn strip_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}
