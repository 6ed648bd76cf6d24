//! The outside world of a digest: the activities, and the store, the renderer and the mailer that they use.

mod admit;
mod claim;
mod compose;
mod digest;
pub mod mailer;
mod plan;
pub mod read_back;
pub mod renderer;
mod send;
pub mod settings;
pub mod store;
mod timing;

pub use digest::{DigestActivities, Error};
