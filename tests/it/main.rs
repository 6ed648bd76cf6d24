//! The end-to-end tests: real servers, real SMTP, both stores.

mod changes;
mod digest;
mod documentation;
mod gateway;
mod message;
mod operators;
mod producers;
mod recovery;
mod smtp;
mod store;
mod subscriptions;
mod timing;
mod upgrade;
