//! A message in an answer.

use serde_json::{Value, json};
use tidings_model::records::{MessageRecord, Origin};

use crate::api::caller::Caller;

/// The message, with its address only for tokens that may read recipients.
pub(super) fn message(message: MessageRecord, caller: &Caller) -> Value {
    let url = url(&message.origin, caller);
    let envelope_to = if caller.sees_addresses() { message.envelope_to.clone() } else { String::new() };
    let mut shown = json!(MessageRecord { envelope_to, ..message });
    shown["url"] = json!(url);
    shown
}

/// The path of a single message's state. A message of a digest has none.
pub(super) fn url(origin: &Origin, caller: &Caller) -> Option<String> {
    let Origin::Single { key, .. } = origin else { return None };
    // Percent-encoded, `/` included.
    let text = key.to_string();
    let (tenant, key) = text.split_once('/')?;
    let tenant = if caller.own_tenant.is_none() { format!("?tenant={tenant}") } else { String::new() };
    Some(format!("/v1/messages/{key}{tenant}"))
}
