//! Cache of SNS certificates. They come without a chain, so we trust the TLS connection.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::body::Bytes;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{sync, time::Instant};
use webpki::EndEntityCert;

use super::SnsUrl;
use crate::{
    fetch::{FetchError, HttpFetcher},
    webhooks::VerifyError,
};

/// How long a failure is cached.
const FAILED: Duration = Duration::from_secs(30);
/// Cache size. SNS has one certificate per region at a time.
const KNOWN: usize = 32;
/// Response limit in bytes.
const ANSWER_BYTES: usize = 16 * 1024;

/// Anyone can cause a fetch by naming a URL, so only one should run at a time. A failure is cached for 30 s.
pub struct CertificateCache {
    fetcher: HttpFetcher,
    known: Mutex<BTreeMap<SnsUrl, CertificateEntry>>,
    fetching: sync::Mutex<()>,
}

#[derive(Clone)]
enum CertificateEntry {
    Certificate(SnsCertificate),
    Failed(Instant),
}

impl CertificateEntry {
    fn is_fresh(&self) -> bool {
        match self {
            Self::Certificate(_) => true,
            Self::Failed(at) => at.elapsed() < FAILED,
        }
    }

    fn certificate(self) -> Option<SnsCertificate> {
        match self {
            Self::Certificate(certificate) => Some(certificate),
            Self::Failed(_) => None,
        }
    }
}

impl CertificateCache {
    #[must_use]
    pub fn new(fetcher: HttpFetcher) -> Self {
        Self { fetcher, known: Mutex::default(), fetching: sync::Mutex::default() }
    }

    /// Fetches an SNS URL: a certificate, or a subscription confirmation.
    ///
    /// # Errors
    ///
    /// See [`FetchError`].
    pub async fn fetch_url(&self, address: &SnsUrl) -> Result<Bytes, FetchError> {
        self.fetcher.get(&address.to_string(), ANSWER_BYTES).await
    }

    /// Returns `None` if the certificate is currently unavailable.
    pub async fn get(&self, address: &SnsUrl) -> Option<SnsCertificate> {
        if let Some(known) = self.cached_entry(address) {
            return known.certificate();
        }
        let _fetching = self.fetching.lock().await;
        // Another request may have fetched this meanwhile.
        if let Some(known) = self.cached_entry(address) {
            return known.certificate();
        }
        let known = self.fetch(address).await;
        self.store_entry(address, known.clone());
        known.certificate()
    }

    async fn fetch(&self, address: &SnsUrl) -> CertificateEntry {
        let fetched = self.fetch_url(address).await.map_err(|error| error.to_string());
        match fetched.and_then(|pem| SnsCertificate::parse(&pem).map_err(|refused| refused.to_string())) {
            Ok(certificate) => CertificateEntry::Certificate(certificate),
            Err(error) => {
                tracing::warn!(%address, error, "cannot fetch the SNS signing certificate");
                CertificateEntry::Failed(Instant::now())
            }
        }
    }

    fn cached_entry(&self, address: &SnsUrl) -> Option<CertificateEntry> {
        self.lock().get(address).filter(|known| known.is_fresh()).cloned()
    }

    fn store_entry(&self, address: &SnsUrl, known: CertificateEntry) {
        let mut all = self.lock();
        if all.len() >= KNOWN {
            all.retain(|_, known| matches!(known, CertificateEntry::Certificate(_)));
        }
        if all.len() >= KNOWN {
            all.clear();
        }
        all.insert(address.clone(), known);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SnsUrl, CertificateEntry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NAMES: [&str; 2] = ["sns.amazonaws.com", "sns.amazonaws.com.cn"];
/// Algorithm identifier of RSA in a `SubjectPublicKeyInfo` with 2,048 bits or more, after a sequence header
/// with two-byte length.
const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnsCertificate(Vec<u8>);

impl SnsCertificate {
    /// Parses a PEM certificate.
    ///
    /// # Errors
    ///
    /// This is not a certificate, its subject is not SNS, or its key is not RSA.
    pub fn parse(pem: &[u8]) -> Result<Self, VerifyError> {
        let der = CertificateDer::from_pem_slice(pem).map_err(|_| VerifyError::Certificate)?;
        let certificate = EndEntityCert::try_from(&der).map_err(|_| VerifyError::Certificate)?;
        let names = NAMES.iter().filter_map(|name| ServerName::try_from(*name).ok());
        let mut valid = names.filter(|name| certificate.verify_is_valid_for_subject_name(name).is_ok());
        valid.next().ok_or(VerifyError::Certificate)?;
        let spki = certificate.subject_public_key_info();
        let key = rsa(&spki).ok_or(VerifyError::Certificate)?;
        Ok(Self(key.to_owned()))
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.0
    }
}

/// The `RSAPublicKey` follows the algorithm and the header of the bit string.
fn rsa(spki: &[u8]) -> Option<&[u8]> {
    let content = spki.strip_prefix(b"\x30\x82")?.get(2..)?.strip_prefix(RSA)?;
    content.strip_prefix(b"\x03\x82")?.get(2..)?.strip_prefix(b"\0")
}
