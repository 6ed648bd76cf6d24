//! What operators watch for where a digest or message ends badly: counted, and logged under a stable name.

use tidings_model::{
    records::Origin,
    step::{Closed, Outcome},
};
use uuid::Uuid;

use crate::metrics;

/// It ended. `true`: as failed or ambiguous, and operators are told. The reason has no address.
pub fn ended(id: Uuid, origin: &Origin, Closed { outcome, why }: &Closed) -> bool {
    if !matches!(outcome, Outcome::Failed | Outcome::Ambiguous) {
        return false;
    }
    match origin {
        Origin::Digest(_) => {
            metrics::digest_failed();
            tracing::error!(alert = "digest_failed", digest_id = %id, why, "a digest could not be delivered");
        }
        Origin::Single { .. } => {
            metrics::message_failed();
            tracing::error!(alert = "message_failed", id = %id, why, "a message could not be delivered");
        }
    }
    true
}
