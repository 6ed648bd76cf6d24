//! The keys of both streams, ready to sign.

use jiff::Timestamp;
use tidings_model::settings::{DkimKey, Stream, Streams};

use super::Dkim;
use crate::Error;

/// Signs each stream's messages, unless the stream's relay does.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    bulk: Option<Dkim>,
    transactional: Option<Dkim>,
}

impl Signers {
    /// Reads the keys of the configuration.
    ///
    /// # Errors
    /// [`Error::DkimKey`] names the fault of a key and does not show the key.
    pub fn new(streams: &Streams) -> Result<Self, Error> {
        let dkim = |stream: &Stream| stream.dkim.as_ref().map(Dkim::read).transpose();
        Ok(Self { bulk: dkim(&streams.bulk)?, transactional: dkim(&streams.transactional)? })
    }

    /// The message as it goes out. A message without its signature does not go out: receivers would take it for forged.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, stream: &str, bytes: Vec<u8>, at: Timestamp) -> Result<Vec<u8>, Error> {
        let dkim = if stream == Streams::TRANSACTIONAL { &self.transactional } else { &self.bulk };
        match dkim {
            Some(dkim) => dkim.sign(&bytes, at),
            None => Ok(bytes),
        }
    }
}

impl Dkim {
    /// Reads a configured key.
    ///
    /// # Errors
    /// As for [`Dkim::new`].
    pub fn read(key: &DkimKey) -> Result<Self, Error> {
        Self::new(&key.selector, &key.domain, &key.pem)
    }
}
