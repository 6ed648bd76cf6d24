//! What the end-to-end tests share: servers, relays, checks.
