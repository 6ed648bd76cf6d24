//! The outside world of a digest: the activities, and the store, the renderer and the mailer that they use.
pub mod mailer;
pub mod renderer;
pub mod store;
