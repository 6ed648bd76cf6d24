use serde_json::{Value, json};
use tidings_model::limits::{COUNT_NAME_BYTES, COUNTS, ID_BYTES};

use super::EventsResponse;
use crate::{
    api::openapi::operation::{ApiTag, Operation, RequestHeader},
    problem::Problem,
};

pub(crate) fn describe_post() -> Operation {
    let event = |id: &str| {
        json!({
            "event_id": id, "digest": "activity", "user": "ann", "category": "comment", "occurred_at": "2026-01-31T08:00:00Z",
            "payload": {"title": "Bob replied to you"},
        })
    };
    let retract = json!({"digest": "activity", "user": "ann", "event_id": "comment-4710"});
    let bodies = [
        ("Two events", json!({"events": [event("comment-4711"), event("comment-4712")]})),
        ("Events and retracts", json!({"events": [event("comment-4713")], "retracts": [retract]})),
    ];
    let body = json!({"$ref": "#/components/schemas/EventsBody"});
    Operation::new(
        ApiTag::Events,
        "An event that came before changes nothing, and other content replaces it until it goes out; result says what the ledger knows \
         of an id. What is legal and looks like a mistake is accepted \
         with warnings. Content-Encoding may be gzip or zstd. A request has at most 1 MiB and 10,000 items. Other shapes are taken, too, which \
         generators of clients could not tell apart: one event, a list of events, and lines of events as application/x-ndjson.",
    )
    .header(RequestHeader::IdempotencyKey)
    .header(RequestHeader::Prefer)
    .schema("Event", event_schema())
    .schema("Retract", retract_schema())
    .schema("EventsBody", body_schema())
    .content("application/json", &body, &bodies)
    .answer::<EventsResponse>(200, "Some items are durable, and the others were refused for the reasons in results.")
    .answer::<EventsResponse>(202, "All items are durable.")
    .problem(Problem::OtherContent)
    .problem(Problem::UnknownDigest)
    .problem(Problem::InboxFull)
}

fn body_schema() -> Value {
    let list = |name: &str| json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}});
    json!({
        "type": "object",
        "description": "Events, retracts, or both.",
        "additionalProperties": false,
        "minProperties": 1,
        "properties": {"events": list("Event"), "retracts": list("Retract")},
    })
}

fn id_schema(description: &str) -> Value {
    json!({"type": "string", "maxLength": ID_BYTES, "description": description})
}

fn time_schema(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

/// Message `Event` in `proto/tidings/v1/event.proto`.
fn event_schema() -> Value {
    let count = json!({"type": "integer", "format": "int64"});
    let properties = json!({
        "tenant": id_schema("The tenant; that of the token if it is missing."),
        "user": id_schema("The recipient's id in the directory."),
        "digest": id_schema("The digest type."),
        "event_id": id_schema("What the event is known by within its key: the same content again changes nothing. Idempotency-Key is another spelling for a single event."),
        "category": id_schema("The kind of event."),
        "entity_type": id_schema("Events about the same entity share a line of the message."),
        "entity_id": id_schema("The entity of this type."),
        "actor": id_schema("The person or program that caused the event, as the message shows it."),
        "occurred_at": time_schema("The time of the event."),
        "counts": {
            "type": "object", "description": "Numbers that add up over a line.", "maxProperties": COUNTS,
            "propertyNames": {"maxLength": COUNT_NAME_BYTES}, "additionalProperties": count,
        },
        "urgent": {"type": "boolean", "description": "Makes the window due at once."},
        "payload": {
            "type": "object", "additionalProperties": true,
            "description": "Data for the template: title, url, excerpt and others. At most 16 KiB as JSON.",
        },
    });
    json!({
        "type": "object",
        "description": "One fact for one key. An event names people by id, never by address.",
        "additionalProperties": false,
        "required": ["user", "digest", "category", "occurred_at"],
        "properties": properties,
    })
}

/// Message `Retract` in the same file.
fn retract_schema() -> Value {
    let properties = json!({
        "tenant": id_schema("The tenant; that of the token if it is missing."),
        "user": id_schema("The recipient's id in the directory."),
        "digest": id_schema("The digest type."),
        "event_id": id_schema("Withdraws the event with this id. It excludes category."),
        "category": id_schema("Withdraws all events of this category about the entity."),
        "entity_type": id_schema("The type of the entity."),
        "entity_id": id_schema("The entity; without one, the events about none."),
        "occurred_at": time_schema("The time up to which events are withdrawn. Required with category."),
    });
    json!({
        "type": "object",
        "description": "Withdraws events of a key that were deleted, read or resolved.",
        "additionalProperties": false,
        "required": ["user", "digest"],
        "properties": properties,
    })
}
