//! Links in payloads: only http, https and mailto survive, and they cannot end the text around them.

use serde_json::{Value, json};

use super::{
    link::harmless,
    view::{group, view},
};

/// Any text where a payload has a link.
///
/// # Panics
/// Where a rule is broken.
pub fn url(bytes: &[u8]) {
    let raw = String::from_utf8_lossy(bytes);
    let Some(link) = cleaned(&raw) else { return };
    harmless(&link);
    assert_eq!(cleaned(&link).as_deref(), Some(link.as_str()), "{raw:?} is not in its normal form");
}

/// The link as templates see it, the same at every place of the payload.
fn cleaned(raw: &str) -> Option<String> {
    let payload = json!({
        "url": raw, "link": [raw], "deep": {"href": raw, "html_url": raw, "list": [{"link": raw}]}, "title": raw,
    });
    let Value::Object(payload) = payload else { return None };
    let view = serde_json::to_value(view(vec![group("", payload)], "", "en")).expect("a view is JSON");
    let line = &view["digest"]["lines"][0];
    let places = ["/url", "/link/0", "/deep/href", "/deep/html_url", "/deep/list/0/link"];
    let mut links = places.map(|place| line["payload"].pointer(place).cloned().unwrap_or_default());
    for link in &links {
        assert_eq!(*link, line["url"], "{raw:?}");
    }
    match links[0].take() {
        Value::String(link) => Some(link),
        _ => None,
    }
}
