//! The gateway as recipients and providers reach it.

mod reverse_proxies;
