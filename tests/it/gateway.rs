//! The gateway as recipients, providers and services reach it.

mod api;
mod examples;
mod from_zero;
mod jobs;
mod operate;
mod reverse_proxies;
