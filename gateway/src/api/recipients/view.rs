//! A recipient in an answer.

use serde_json::{Value, json};
use tidings_model::records::{ListedRecipient, Recipient};

use crate::api::caller::Caller;

/// The row of the directory, with the address only for tokens that may read recipients.
pub(super) fn recipient(ListedRecipient { recipient, suppressed }: ListedRecipient, caller: &Caller) -> Value {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let mut shown =
        json!({"tenant": tenant, "user": user, "name": name, "zone": zone, "locale": locale, "suppressed": suppressed});
    if caller.sees_addresses() {
        shown["address"] = json!(address);
    }
    shown
}
