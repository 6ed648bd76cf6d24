//! The relays that mail goes by: which one takes a message, what it is told beside the message, and when it is left
//! alone.

mod provider;

pub use provider::Provider;
