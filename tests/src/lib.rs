//! What the end-to-end tests share: servers, relays, checks.

pub mod faulty;
pub mod postgres;
pub mod relay;
pub mod server;
pub mod stage;
