//! A thin client for services which produce events. An event is durable once [`Client::emit`] returns.
//! [`Client::retract`] retracts one, e.g. because its subject was deleted, read or resolved.
//!
//! ```no_run
//! # async fn example(event: tidings_client::v1::Event) -> Result<(), Box<dyn std::error::Error>> {
//! let client = tidings_client::Client::connect(tidings_client::Config::default()).await?;
//! client.emit(event).await?;
//! # Ok(()) }
//! ```
//!
//! With [`Config::http`], the client posts events to a gateway's API and needs no Temporal.
//!
//! To send many events, call `emit` concurrently: events for the same key are batched. Repeating a call is
//! safe after any error, because an `event_id` counts once, and so does a retract.

mod client;
pub mod commands;
mod config;
mod connection;
mod error;
mod http;
mod lanes;
mod signal;

pub use client::{ByteBudget, Client};
pub use commands::{CommandError, WorkflowCommands};
pub use config::{Config, ConnectError, HttpGateway, WrongHttp};
pub use connection::{ConnectFailure, ConnectFuture, CredentialSource, connect, connect_among, load};
pub use error::{BatchRejection, EmitError, check_namespace};
pub use signal::{
    hand_over, hand_over_payloads, message_search_attributes, message_task_queue, search_attributes, start_later,
};
pub use tidings_proto::v1;
