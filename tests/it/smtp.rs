//! The conversation with a relay over a real connection.

mod aiosmtpd;
mod dkim;
mod outcomes;
mod pool;
mod privacy;
mod relays;
mod spam_score;
mod tenant_breakers;
mod tenants;
