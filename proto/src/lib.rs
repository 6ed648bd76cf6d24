//! The wire contract `tidings.v1`: what producers send, as prost types with the proto3-JSON mapping.
//!
//! No logic and no limits live here; `tidings-model` turns a wire event into a checked one.

mod well_known;

pub use well_known::{Payload, Timestamp, number_of};

/// Version 1 of the contract. The messages are documented in `proto/tidings/v1/event.proto`.
pub mod v1 {
    #![expect(
        clippy::pedantic,
        clippy::allow_attributes,
        clippy::allow_attributes_without_reason,
        missing_docs,
        reason = "prost and pbjson generate this code"
    )]
    include!(concat!(env!("OUT_DIR"), "/tidings.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/tidings.v1.serde.rs"));
}
