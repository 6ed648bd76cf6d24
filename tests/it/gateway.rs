//! The gateway as recipients, providers and services reach it.

mod api;
mod reverse_proxies;
