//! What operators watch for where a digest or message ends badly: counted, and logged under a stable name.

use uuid::Uuid;

use crate::{metrics, store::Origin};

/// It ended as failed or ambiguous. `detail` has no address.
pub fn not_delivered(id: Uuid, origin: &Origin, detail: &str) {
    match origin {
        Origin::Digest(_) => {
            metrics::digest_failed();
            tracing::error!(alert = "digest_failed", digest_id = %id, detail, "a digest could not be delivered");
        }
        Origin::Single { .. } => {
            metrics::message_failed();
            tracing::error!(alert = "message_failed", id = %id, detail, "a message could not be delivered");
        }
    }
}
