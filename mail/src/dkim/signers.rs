//! The keys of both streams, ready to sign.

use jiff::Timestamp;
use tidings_model::settings::StreamName;

use super::Dkim;
use crate::Error;

/// Signs each stream's messages, unless the stream's relay does.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    pub bulk: Option<Dkim>,
    pub transactional: Option<Dkim>,
}

impl Signers {
    /// The message as it goes out. A message without its signature does not go out: receivers would take it for forged.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, stream: StreamName, bytes: Vec<u8>, at: Timestamp) -> Result<Vec<u8>, Error> {
        let dkim = match stream {
            StreamName::Transactional => &self.transactional,
            StreamName::Bulk => &self.bulk,
        };
        match dkim {
            Some(dkim) => dkim.sign(&bytes, at),
            None => Ok(bytes),
        }
    }
}
