//! The outside world of a digest: the activities, and the store, the renderer and the mailer that they use.

mod admit;
mod alert;
pub mod archive;
pub mod choices;
mod claim;
mod compose;
mod deliver;
pub mod delivery_events;
mod digest;
mod effective;
pub mod mailer;
pub mod message;
pub mod metrics;
pub mod namespace;
mod plan;
mod preview;
pub mod read_back;
pub mod relays;
pub mod renderer;
mod reopen;
mod retract;
mod send;
pub mod settings;
pub mod store;
mod timing;
pub mod upkeep;

pub use deliver::MessageActivities;
pub use digest::{DigestActivities, Error};
pub use preview::Preview;
pub use upkeep::UpkeepActivities;
