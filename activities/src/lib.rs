//! Activities called by workflows, for digests, single messages, subscriptions and retention.

mod attempt;
mod context;
pub mod digest;
pub mod message;
pub mod retention;
pub mod subscriptions;

pub use context::CancellableResult;
pub use digest::DigestActivities;
pub use message::MessageActivities;
pub use retention::RetentionActivities;
pub use subscriptions::SubscriptionActivities;
