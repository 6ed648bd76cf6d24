//! What the end-to-end tests share: servers, relays, checks.

pub mod bad_input;
pub mod broken;
pub mod checker;
pub mod days;
pub mod faulty;
pub mod outside;
pub mod port;
pub mod post;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod python;
pub mod relay;
pub mod server;
pub mod spent;
pub mod stage;
pub mod upkeep;
