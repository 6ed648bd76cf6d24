//! A message in an answer.

use serde::Serialize;
use tidings_model::{
    delivery_events::ReportRecord,
    records::{AttemptRecord, Cursor, MessagePlace, MessageRecord, Origin},
};
use utoipa::ToSchema;

use crate::api::caller::Caller;

/// A message of the outbox.
#[derive(Serialize, ToSchema)]
#[schema(as = Message)]
pub(super) struct MessageView {
    #[serde(flatten)]
    record: MessageRecord,
    /// The path of the state of a single message; `null` for the message of a digest.
    pub url: Option<String>,
}

/// A message that was handed over.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageAccepted)]
pub(super) struct AcceptedView {
    pub message: MessageView,
    /// The same message was handed over before.
    pub again: bool,
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
#[schema(as = Messages)]
pub(super) struct Rows {
    pub messages: Vec<MessageView>,
    /// The cursor of the next page, if more rows follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub next: Option<Cursor<MessagePlace>>,
}

/// A message with its attempts and the reports of providers.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageStory)]
pub(super) struct Story {
    pub message: MessageView,
    pub attempts: Vec<AttemptRecord>,
    pub delivery_events: Vec<ReportRecord>,
}

/// A message after a command.
#[derive(Serialize, ToSchema)]
#[schema(as = MessageAfter)]
pub(super) struct After {
    pub message: MessageView,
}

/// The message, with its address only for tokens that may read recipients.
pub(super) fn message(record: MessageRecord, caller: &Caller) -> MessageView {
    let url = url(&record.origin, caller);
    let envelope_to = if caller.sees_addresses() { record.envelope_to.clone() } else { String::new() };
    MessageView { record: MessageRecord { envelope_to, ..record }, url }
}

/// The path of a single message's state. A message of a digest has none.
fn url(origin: &Origin, caller: &Caller) -> Option<String> {
    let Origin::Single { key, .. } = origin else { return None };
    // Percent-encoded, `/` included.
    let text = key.to_string();
    let (tenant, key) = text.split_once('/')?;
    let tenant = if caller.own_tenant.is_none() { format!("?tenant={tenant}") } else { String::new() };
    Some(format!("/v1/messages/{key}{tenant}"))
}
