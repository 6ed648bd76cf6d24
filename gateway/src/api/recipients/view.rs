//! A recipient in an answer.

use serde::Serialize;
use tidings_model::records::{Cursor, ListedRecipient, Reason, Recipient, RecipientPlace};
use utoipa::ToSchema;

use crate::api::caller::Caller;

/// A row of the directory.
#[derive(Serialize, ToSchema)]
#[schema(as = Recipient)]
pub(super) struct RecipientView {
    tenant: String,
    user: String,
    /// RFC 5321 addr-spec. It is there only if the token has the scope `recipients:read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    name: String,
    /// IANA time zone; empty for the digest type's.
    zone: String,
    /// BCP 47 language tag; empty for `en`.
    locale: String,
    /// The reason why the address is suppressed.
    suppressed: Option<Reason>,
}

/// A page of the directory.
#[derive(Serialize, ToSchema)]
#[schema(as = Recipients)]
pub(super) struct Rows {
    pub recipients: Vec<RecipientView>,
    /// The cursor of the next page, if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<Cursor<RecipientPlace>>,
}

/// The row of the directory, with the address only for tokens that may read recipients.
pub(super) fn recipient(ListedRecipient { recipient, suppressed }: ListedRecipient, caller: &Caller) -> RecipientView {
    let Recipient { tenant, user, address, name, zone, locale } = recipient;
    let address = caller.sees_addresses().then_some(address);
    RecipientView { tenant, user, address, name, zone, locale, suppressed }
}
