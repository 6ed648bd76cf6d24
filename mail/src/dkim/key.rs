//! The private key of a DKIM signature.

use std::fmt;

use ring::{
    digest::{SHA256, digest},
    error::KeyRejected,
    rand::SystemRandom,
    rsa,
    signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256},
};
use rustls::{
    pki_types::{PrivateKeyDer, alg_id, pem::PemObject},
    sign::public_key_to_spki,
};

use crate::Error;

const RIGHT: &str = "RSA of 2048 to 4096 bits, or Ed25519, as it comes from \"openssl genpkey -algorithm rsa -pkeyopt \
                     rsa_keygen_bits:2048\" or \"openssl genpkey -algorithm ed25519\"";

/// A private key. RFC 8301 asks for 2048 bits of RSA, and receivers may ignore a signature with fewer than 1024.
pub(super) enum Key {
    Rsa(rsa::KeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Key {
    pub fn read(pem: &[u8]) -> Result<Self, Error> {
        // The parser's error may quote lines of the key.
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| Error::DkimKey(format!("there is no private key in PEM without a password; use {RIGHT}")))?;
        let refused = |why: KeyRejected| Error::DkimKey(format!("the key is refused ({why}); use {RIGHT}"));
        match &der {
            PrivateKeyDer::Pkcs1(key) => rsa::KeyPair::from_der(key.secret_pkcs1_der()).map(Self::Rsa),
            PrivateKeyDer::Pkcs8(key) => {
                let key = key.secret_pkcs8_der();
                // The checked reader requires the public key in the file, which OpenSSL does not write.
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(key)
                    .map(Self::Ed25519)
                    .or_else(|_| rsa::KeyPair::from_pkcs8(key).map(Self::Rsa))
            }
            _ => return Err(Error::DkimKey(format!("the key is neither RSA nor Ed25519; use {RIGHT}"))),
        }
        .map_err(refused)
    }

    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa-sha256",
            Self::Ed25519(_) => "ed25519-sha256",
        }
    }

    /// The record's `k=`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "rsa",
            Self::Ed25519(_) => "ed25519",
        }
    }

    /// The record's `p=`: for RSA a SubjectPublicKeyInfo (erratum 3017 of RFC 6376), for Ed25519 the bare key (RFC 8463 4).
    pub fn public(&self) -> Vec<u8> {
        match self {
            Self::Rsa(key) => public_key_to_spki(&alg_id::RSA_ENCRYPTION, key.public_key()).to_vec(),
            Self::Ed25519(key) => key.public_key().as_ref().to_vec(),
        }
    }

    /// Signs `data`. Ed25519 signs its hash (RFC 8463 3).
    pub fn sign(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), data, &mut signature)
                    .map_err(|_| Error::DkimKey("the key does not sign: its parts contradict each other".to_owned()))?;
                Ok(signature)
            }
            Self::Ed25519(key) => Ok(key.sign(digest(&SHA256, data).as_ref()).as_ref().to_vec()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, ***)", self.algorithm())
    }
}
