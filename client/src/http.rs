//! Events over HTTP to the api of a gateway: `POST /v1/events`, in batches. The gateway makes them durable, and hands them to
//! Temporal.

mod answer;
mod connection;
mod requests;
mod retry;

pub(crate) use requests::Requests;
