//! Collects the events and retracts of one key, for its own workflow.

use tidings_proto::v1;

use super::decoder::Sink;
use crate::{Event, Key, Retract, limits::Invalid, wire::Edition};

pub(super) struct Own<'a> {
    key: &'a Key,
    edition: Edition,
    pub(super) events: Vec<Event>,
    pub(super) retracts: Vec<Retract>,
}

impl<'a> Own<'a> {
    pub(super) fn of(key: &'a Key, edition: Edition) -> Self {
        Self { key, edition, events: Vec::new(), retracts: Vec::new() }
    }

    /// Does not quote the other key: user ids of a careless producer may be email addresses.
    fn check(&self, key: &Key, what: &str) -> Result<(), Invalid> {
        let field = match key {
            key if key == self.key => return Ok(()),
            key if key.tenant != self.key.tenant => "tenant",
            key if key.digest_type != self.key.digest_type => "digest",
            _ => "user",
        };
        let problem = format!("is not the one that the workflow id names; signal the workflow of the {what}'s own key");
        Err(Invalid::new(field, problem))
    }
}

impl Sink for Own<'_> {
    fn event(&mut self, wire: v1::Event) -> Result<(), Invalid> {
        let (key, event) = Event::from_wire_by(self.edition, wire, Some(self.key))?;
        self.check(&key, "event")?;
        self.events.push(event);
        Ok(())
    }

    fn retract(&mut self, wire: v1::Retract) -> Result<(), Invalid> {
        let (key, retract) = Retract::from_wire_by(self.edition, wire, Some(self.key))?;
        self.check(&key, "retract")?;
        self.retracts.push(retract);
        Ok(())
    }
}
