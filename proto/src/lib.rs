//! The wire contract `tidings.v1` for producers, as prost types with the proto3-JSON mapping.
//!
//! This contains neither logic nor limits; `tidings-model` validates wire events.

mod well_known;

pub use well_known::{Payload, Timestamp, number_of};

/// Contract version 1. See `proto/tidings/v1/event.proto` for documentation.
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
