//! What is legal in an event and looks like a mistake, because the message will not show what its producer means.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use tidings_model::{Event, limits::Invalid};

use super::clean;

/// Clocks and time zones of producers are wrong by less than this.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
/// Links of one event that are described.
const LINKS: usize = 3;

/// Returns the fields of an event that look like mistakes, each with the reason. The event is accepted all the same.
#[must_use]
pub fn doubts(event: &Event, now: Timestamp) -> Vec<Invalid> {
    let doubt = |field: &str, problem: &str| Invalid { field: field.to_owned(), problem: problem.to_owned() };
    let payload = event.payload.fields();
    let title = payload.get("title").and_then(Value::as_str).unwrap_or_default();
    let mut doubts = Vec::new();
    if title.trim().is_empty() {
        doubts.push(doubt("payload.title", "is missing; a message shows the category in its place"));
    }
    if event.occurred_at.duration_since(now) > AHEAD {
        doubts.push(doubt("occurred_at", "is more than a day ahead; look at the producer's clock"));
    }
    let mut links = Vec::new();
    hidden_links("payload", &payload, &mut links);
    let is_hidden = "is not a link that a message shows: write an http, https or mailto address";
    doubts.extend(links.into_iter().take(LINKS).map(|path| doubt(&path, is_hidden)));
    doubts
}

/// Collects the paths of the links that a message leaves out. A link that is empty was never meant to be one.
fn hidden_links(path: &str, fields: &Map<String, Value>, found: &mut Vec<String>) {
    for (name, value) in fields {
        hidden_link(&format!("{path}.{name}"), name, value, found);
    }
}

fn hidden_link(path: &str, name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(link) if clean::is_link(name) && !link.is_empty() && clean::url(link).is_none() => {
            found.push(path.to_owned());
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                hidden_link(&format!("{path}[{index}]"), name, value, found);
            }
        }
        Value::Object(fields) => hidden_links(path, fields, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_model::wire;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    /// The fields that look like mistakes.
    fn fields(ahead: SignedDuration, payload: &Value) -> Vec<String> {
        let json = json!({
            "tenant": "acme", "digest": "activity", "user": "ann", "event_id": "e1", "category": "comment",
            "occurred_at": NOW + ahead, "payload": payload,
        });
        let wire = wire::event(json.to_string().as_bytes()).unwrap();
        let (_, event) = Event::from_wire(wire, None).unwrap();
        doubts(&event, NOW).into_iter().map(|Invalid { field, .. }| field).collect()
    }

    #[test]
    fn what_a_message_would_not_show_as_meant_is_doubted() {
        let now = SignedDuration::ZERO;
        let titled = json!({"title": "Plans", "url": "https://app.example/1", "more_url": "", "link": null});
        assert_eq!(fields(now, &titled), [""; 0]);
        assert_eq!(fields(SignedDuration::from_hours(24), &titled), [""; 0]);
        assert_eq!(fields(SignedDuration::from_hours(25), &titled), ["occurred_at"]);
        for untitled in [json!({}), json!({"Title": "Plans"}), json!({"title": " "}), json!({"title": 7})] {
            assert_eq!(fields(now, &untitled), ["payload.title"], "{untitled}");
        }
        let linked =
            json!({"title": "Plans", "url": "javascript:alert(1)", "rows": [{"href": "/plans"}, {"text": "x:y"}]});
        let mut hidden = fields(now, &linked);
        hidden.sort();
        assert_eq!(hidden, ["payload.rows[0].href", "payload.url"]);
        let many = json!({"title": "Plans", "url": vec!["ftp://x"; 9]});
        assert_eq!(fields(now, &many), ["payload.url[0]", "payload.url[1]", "payload.url[2]"]);
    }
}
