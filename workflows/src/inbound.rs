//! stand-in until merged
use crate::{Event, Key, contract::Refused};
pub struct Inbound(Vec<Event>);
impl Inbound {
    pub fn for_key(self, _: Option<&Key>) -> (Vec<Event>, Vec<Refused>) {
        (self.0, vec![])
    }
}
impl temporalio_common::data_converters::TemporalDeserializable for Inbound {}
impl temporalio_common::data_converters::TemporalSerializable for Inbound {}
