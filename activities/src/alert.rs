//! Alerts for digests and messages that fail: counted, and logged under a stable name.

use tidings_model::{
    Alert,
    records::Origin,
    window::{Closed, Outcome},
};
use uuid::Uuid;

use crate::metrics;

/// Logs an end. `true`: the end is failed or ambiguous, and operators are alerted. The reason has no address.
pub fn ended(id: Uuid, origin: &Origin, Closed { outcome, why }: &Closed) -> bool {
    if !matches!(outcome, Outcome::Failed | Outcome::Ambiguous) {
        return false;
    }
    match origin {
        Origin::Digest(_) => {
            metrics::digest_failed();
            tracing::error!(alert = %Alert::DigestFailed, digest_id = %id, why, "a digest could not be delivered");
        }
        Origin::Single { .. } => {
            metrics::message_failed();
            tracing::error!(alert = %Alert::MessageFailed, id = %id, why, "a message could not be delivered");
        }
    }
    true
}
