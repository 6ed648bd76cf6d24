//! The thin client that services link. An event is durable once [`Client::emit`] returns. [`Client::retract`] takes back an
//! event whose subject was deleted, read or resolved.
//!
//! ```no_run
//! # async fn example(event: tidings_client::v1::Event) -> Result<(), Box<dyn std::error::Error>> {
//! let client = tidings_client::Client::connect(tidings_client::Config::default()).await?;
//! client.emit(event).await?;
//! # Ok(()) }
//! ```
//!
//! With [`Config::http`] the client needs no Temporal: it posts events to the api of a gateway.
//!
//! Many events at once are many calls of `emit` at once: events of one key that wait for each other travel together.
//! Both may be repeated after any error: an `event_id` that has arrived already changes nothing, nor does a second retract.

mod client;
pub mod commands;
mod config;
mod connection;
mod error;
mod http;
mod lanes;
mod signal;

pub use client::{ByteBudget, Client};
pub use commands::{CommandError, Commands};
pub use config::{Config, ConnectError, Http, WrongHttp};
pub use connection::{ConnectFailure, Connecting, Credentials, connect, connect_among, load};
pub use error::{Error, Rejection, check_namespace};
pub use signal::{
    hand_over, hand_over_payloads, message_search_attributes, message_task_queue, search_attributes, start_later,
};
pub use tidings_proto::v1;
