//! What the end-to-end tests share: servers, relays, checks.
pub mod relay;
