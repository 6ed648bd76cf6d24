//! The outside world of a digest: the activities, and the store, the renderer and the mailer that they use.

mod alert;
pub mod choices;
mod claim;
mod compose;
mod deliver;
pub mod delivery_events;
mod digest;
pub mod message;
pub mod metrics;
pub mod operations;
mod preview;
pub mod read_back;
pub mod relays;
mod reopen;
mod retract;
mod send;
pub mod upkeep;

pub use deliver::MessageActivities;
pub use digest::{DigestActivities, Error};
pub use preview::Preview;
pub use upkeep::UpkeepActivities;
