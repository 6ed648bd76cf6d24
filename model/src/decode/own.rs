//! Collects one key's events and retracts, for its own workflow.

use tidings_proto::v1;

use super::decoder::DecodeSink;
use crate::{Event, Key, Retract, limits::InvalidField, wire::ContractEdition};

pub(super) struct OwnKeySink<'a> {
    key: &'a Key,
    edition: ContractEdition,
    pub(super) events: Vec<Event>,
    pub(super) retracts: Vec<Retract>,
}

impl<'a> OwnKeySink<'a> {
    pub(super) fn for_key(key: &'a Key, edition: ContractEdition) -> Self {
        Self { key, edition, events: Vec::new(), retracts: Vec::new() }
    }

    /// Does not quote the other key: a careless producer's user ids may be email addresses.
    fn check_key(&self, key: &Key, what: &str) -> Result<(), InvalidField> {
        let field = match key {
            key if key == self.key => return Ok(()),
            key if key.tenant != self.key.tenant => "tenant",
            key if key.digest_type != self.key.digest_type => "digest",
            _ => "user",
        };
        let problem = format!("is not the one that the workflow id names; signal the workflow of the {what}'s own key");
        Err(InvalidField::new(field, problem))
    }
}

impl DecodeSink for OwnKeySink<'_> {
    fn accept_event(&mut self, wire: v1::Event) -> Result<(), InvalidField> {
        let (key, event) = Event::from_wire_by(self.edition, wire, Some(self.key))?;
        self.check_key(&key, "event")?;
        self.events.push(event);
        Ok(())
    }

    fn accept_retract(&mut self, wire: v1::Retract) -> Result<(), InvalidField> {
        let (key, retract) = Retract::from_wire_by(self.edition, wire, Some(self.key))?;
        self.check_key(&key, "retract")?;
        self.retracts.push(retract);
        Ok(())
    }
}
