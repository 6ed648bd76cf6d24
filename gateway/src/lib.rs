//! The HTTP side of Tidings: recipients' links and pages, providers' webhooks, and the API.
//!
//! [`server`] accepts and limits connections. [`routes`] lists the routes of the public listener.

pub mod api;
mod as_before;
mod client_address;
mod client_quota;
mod concurrency;
pub mod fetch;
pub mod health;
pub mod inbox;
pub mod jobs;
pub mod metrics;
mod page;
mod preferences;
pub mod problem;
pub mod recorder;
pub mod request_body;
pub mod routes;
pub mod server;
mod state;
pub mod tracking;
mod unsubscribe;
mod view;
pub mod webhooks;

pub use client_address::TrustedProxies;
pub use concurrency::{AdmissionLimits, BODY_COST};
pub use state::GatewayState;
