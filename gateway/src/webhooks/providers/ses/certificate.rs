//! Certificates of SNS: one each, without a chain. Trust is the TLS connection over which a certificate comes.

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use webpki::EndEntityCert;

use crate::webhooks::Refused;

const NAMES: [&str; 2] = ["sns.amazonaws.com", "sns.amazonaws.com.cn"];
/// The algorithm identifier of RSA in a `SubjectPublicKeyInfo` of 2,048 bits and more, after a sequence of two-byte length.
const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// The public key of a certificate of SNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate(Vec<u8>);

impl Certificate {
    /// Reads a certificate in PEM.
    ///
    /// # Errors
    /// It is none, names another service, or its key is not RSA.
    pub fn parse(pem: &[u8]) -> Result<Self, Refused> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| Refused::Certificate)?;
        let certificate = EndEntityCert::try_from(&der).map_err(|_| Refused::Certificate)?;
        let names = NAMES.iter().filter_map(|name| ServerName::try_from(*name).ok());
        let mut valid = names.filter(|name| certificate.verify_is_valid_for_subject_name(name).is_ok());
        valid.next().ok_or(Refused::Certificate)?;
        let spki = certificate.subject_public_key_info();
        let key = rsa(&spki).ok_or(Refused::Certificate)?;
        Ok(Self(key.to_owned()))
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.0
    }
}

/// The `RSAPublicKey` inside a `SubjectPublicKeyInfo`: what follows the algorithm and the header of the bit string.
fn rsa(spki: &[u8]) -> Option<&[u8]> {
    let content = spki.strip_prefix(b"\x30\x82")?.get(2..)?.strip_prefix(RSA)?;
    content.strip_prefix(b"\x03\x82")?.get(2..)?.strip_prefix(b"\0")
}
