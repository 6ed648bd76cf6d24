//! The trusted certificate authorities: those of the system, and a file for private relays.

use std::path::Path;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio_rustls::TlsConnector;

use crate::{Error, tls};
use tidings_model::{RelayUrl, relay_url::Tls};

/// Prepares TLS for a relay. Returns `None` if the relay never uses TLS. Reads files.
pub(super) fn connector(relay: &RelayUrl) -> Result<Option<TlsConnector>, Error> {
    if relay.tls == Tls::None {
        return Ok(None);
    }
    let mut roots = tls::system_roots();
    if let Some(path) = &relay.ca {
        add_file(&mut roots, path)?;
    }
    if roots.is_empty() {
        return Err(Error::Trust("the system has none; install its CA certificates, or name a file by ca=FILE".into()));
    }
    Ok(Some(tls::connector(roots)))
}

fn add_file(roots: &mut RootCertStore, path: &Path) -> Result<(), Error> {
    let unreadable = |problem: String| Error::Trust(format!("{} {problem}", path.display()));
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| unreadable(format!("cannot be read: {e}")))? {
        let certificate = certificate.map_err(|e| unreadable(format!("is no PEM file: {e}")))?;
        roots.add(certificate).map_err(|e| unreadable(format!("has a certificate that is no authority's: {e}")))?;
    }
    if roots.len() == before { Err(unreadable("has no certificate in PEM".into())) } else { Ok(()) }
}
