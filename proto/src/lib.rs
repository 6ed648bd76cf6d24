//! The wire contract `tidings.v1`: what producers send, as prost types with the proto3-JSON mapping.
//!
//! No logic and no limits live here; `tidings-workflows` turns a wire event into a checked one.

mod timestamp;

pub use timestamp::Timestamp;

/// Version 1 of the contract. The messages are documented in `proto/tidings/v1/event.proto`.
pub mod v1 {
    #![expect(clippy::pedantic, missing_docs, reason = "generated code")]
    include!(concat!(env!("OUT_DIR"), "/tidings.v1.rs"));
    include!(concat!(env!("OUT_DIR"), "/tidings.v1.serde.rs"));
}
