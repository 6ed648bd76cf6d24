//! A certificate authority for tests.

use std::{path::Path, sync::Arc};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio_rustls::TlsAcceptor;

/// Signs certificates for one host name.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    host: String,
}

impl Authority {
    /// An authority for `host`, which no client trusts yet.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(host: &str) -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate with its issuer's name for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "authority for tests");
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?, host: host.to_owned() })
    }

    /// Writes the authority's certificate as PEM. A client that trusts the file trusts the relay.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path, self.issuer.pem())?)
    }

    /// Writes a new certificate and its key as PEM.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write_certificate(&self, certificate: &Path, key: &Path) -> Result<()> {
        let pair = KeyPair::generate()?;
        let signed = CertificateParams::new(vec![self.host.clone()])?.signed_by(&pair, &self.issuer)?;
        std::fs::write(certificate, signed.pem())?;
        Ok(std::fs::write(key, pair.serialize_pem())?)
    }

    /// Takes TLS off connections, with a new certificate.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn acceptor(&self) -> Result<TlsAcceptor> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![self.host.clone()])?.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
