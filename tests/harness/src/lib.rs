//! Environments, servers, relays and checks that the end-to-end tests, the benchmarks and the chaos runner share.

pub mod api;
pub mod buggy_store;
pub mod checker;
pub mod cli_env;
pub mod cost;
pub mod env;
pub mod flood;
pub mod gateway;
pub mod http;
pub mod interrupted_future;
pub mod message_env;
pub mod notice_receiver;
pub mod outbox;
pub mod port;
pub mod postfix;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod python;
pub mod relay;
pub mod retention;
pub mod reverse_proxy;
pub mod server;
pub mod steps;
pub mod team_service;
pub mod time_skipping;
