//! The keys of both streams and of tenants, ready to sign.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tidings_model::settings::StreamName;

use super::Dkim;
use crate::Error;

/// Signs messages, unless the relay does.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    /// The keys for everybody.
    pub general: StreamSigners,
    /// By tenant: keys that replace the general ones.
    pub tenants: BTreeMap<String, StreamSigners>,
}

/// The keys of both streams. Without a key a stream's messages stay unsigned.
#[derive(Clone, Debug, Default)]
pub struct StreamSigners {
    pub bulk: Option<Dkim>,
    pub transactional: Option<Dkim>,
}

impl Signers {
    /// The message of a tenant as it goes out. A message without its signature does not go out: receivers would take it for
    /// forged.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn sign(&self, tenant: &str, stream: StreamName, bytes: Vec<u8>, at: Timestamp) -> Result<Vec<u8>, Error> {
        match self.of(tenant, stream) {
            Some(dkim) => dkim.sign(&bytes, at),
            None => Ok(bytes),
        }
    }

    /// The DNS records of the keys that sign the messages of a tenant: name and text. Another key has another record.
    #[must_use]
    pub fn records(&self, tenant: &str, stream: StreamName) -> Vec<[String; 2]> {
        let first = self.of(tenant, stream);
        let keys = [first, first.and_then(Dkim::second)].into_iter().flatten();
        keys.map(|dkim| [dkim.record_name(), dkim.record()]).collect()
    }

    /// The TXT record of each key, in which it is public.
    pub fn all_records(&self) -> impl Iterator<Item = String> {
        let streams = [&self.general].into_iter().chain(self.tenants.values());
        let first = streams.flat_map(|of| [&of.bulk, &of.transactional]).flatten();
        first
            .flat_map(|dkim| [Some(dkim), dkim.second()])
            .flatten()
            .map(|dkim| dkim.record_name() + " " + &dkim.record())
    }

    fn of(&self, tenant: &str, stream: StreamName) -> Option<&Dkim> {
        let StreamSigners { bulk, transactional } = self.tenants.get(tenant).unwrap_or(&self.general);
        match stream {
            StreamName::Transactional => transactional.as_ref(),
            StreamName::Bulk => bulk.as_ref(),
        }
    }
}
