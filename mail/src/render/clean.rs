//! Sanitizes event values for templates (rule 22). A value becomes a single line with limited length and
//! cannot reorder the text around it; links must be http, https or mailto. Escaping handles markup.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use tidings_model::{Event, foreign_text::cut_text, limits::InvalidField};
use url::Url;

use crate::bidi;

/// Forbidden in URLs (RFC 3986, 2), but left by the URL parser in mailto links and queries.
const NEVER_IN_URLS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'|').add(b'}');
/// For names: actors, entities, categories and counts.
pub(super) const NAME_CHARS: usize = 100;
const PAYLOAD_CHARS: usize = 1_000;

/// Isolates values with right-to-left characters.
pub(super) fn clean_text(raw: &str, max_chars: usize) -> Cow<'_, str> {
    if is_plain(raw) && raw.len() <= max_chars {
        return raw.into();
    }
    let line = collapse(raw.chars().filter(|c| !bidi::is_reordering(*c)), max_chars);
    if line.chars().any(bidi::runs_right_to_left) { bidi::isolate_text(&line).into() } else { line.into() }
}

/// Values in a subject are already clean. Closes any isolate that the cut left open.
pub(super) fn clean_subject(raw: &str, max_chars: usize) -> String {
    let open = |line: &str| line.matches(bidi::ISOLATE.0).count().saturating_sub(line.matches(bidi::ISOLATE.1).count());
    // Making room for the closing characters shortens the line, which may leave even more isolates open.
    let mut room = 0;
    loop {
        let line = collapse(raw.chars(), max_chars.saturating_sub(room));
        let ends = open(&line);
        if ends <= room {
            return line + &bidi::ISOLATE.1.to_string().repeat(ends);
        }
        room = ends;
    }
}

/// Normalizes an http, https or mailto link (RFC 3986, ASCII only); `None` for any other scheme. Never
/// truncates one, since it would lead elsewhere; the payload limit bounds its length.
pub(super) fn clean_url(raw: &str) -> Option<String> {
    let url = Url::parse(raw).ok()?;
    let link = || Cow::from(utf8_percent_encode(url.as_str(), NEVER_IN_URLS)).into_owned();
    matches!(url.scheme(), "http" | "https" | "mailto").then(link)
}

/// Strings under `url`, `link`, `href` or `*_url` are links.
pub(super) struct CleanPayload<'a>(pub &'a Map<String, Value>);

impl Serialize for CleanPayload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            self.0.iter().map(|(name, value)| (clean_text(name, PAYLOAD_CHARS), PayloadEntry { name, value })),
        )
    }
}

struct PayloadEntry<'a> {
    name: &'a str,
    value: &'a Value,
}

impl Serialize for PayloadEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { name, value } = *self;
        match value {
            Value::String(raw) if is_link(name) => clean_url(raw).serialize(serializer),
            Value::String(raw) => clean_text(raw, PAYLOAD_CHARS).serialize(serializer),
            Value::Array(values) => serializer.collect_seq(values.iter().map(|value| PayloadEntry { name, value })),
            Value::Object(map) => CleanPayload(map).serialize(serializer),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.serialize(serializer),
        }
    }
}

pub(super) fn is_link(name: &str) -> bool {
    matches!(name, "url" | "link" | "href") || name.ends_with("_url")
}

/// Returns `true` for printable ASCII with single spaces inside, like most values, which needs no cleaning.
#[expect(clippy::needless_bitwise_bool, reason = "without an early exit the compiler vectorises the folds")]
fn is_plain(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let printable = bytes.iter().fold(true, |so_far, b| so_far & (b' '..=b'~').contains(b));
    let gaps = bytes.iter().zip(bytes.iter().skip(1)).fold(false, |so_far, (a, b)| so_far | ((*a | *b) == b' '));
    printable && !gaps && bytes.first() != Some(&b' ') && bytes.last() != Some(&b' ')
}

/// Truncates with an ellipsis.
fn collapse(raw: impl Iterator<Item = char>, max_chars: usize) -> String {
    let mut line = String::new();
    let (mut length, mut gap) = (0, false);
    for c in raw {
        if c.is_control() || c.is_whitespace() {
            gap = !line.is_empty();
            continue;
        }
        length += 1 + usize::from(gap);
        if length > max_chars {
            return ellipsis(line, max_chars);
        }
        if std::mem::take(&mut gap) {
            line.push(' ');
        }
        line.push(c);
    }
    line
}

fn ellipsis(mut line: String, max_chars: usize) -> String {
    let cut = cut_text(&line, max_chars.saturating_sub(1));
    // A trailing joiner would merge the ellipsis into the emoji.
    let end = cut.trim_end_matches(|c: char| c == '\u{200d}' || c.is_whitespace()).len();
    line.truncate(end);
    line.push('…');
    line
}

// Warnings about valid events, because the message won't show the intended value.

/// Tolerance for the producer's wrong clocks and time zones.
const AHEAD: SignedDuration = SignedDuration::from_hours(24);
const LINKS: usize = 3;

/// The event is still accepted.
#[must_use]
pub fn event_warnings(event: &Event, now: Timestamp) -> Vec<InvalidField> {
    let doubt = |field: &str, problem: &str| InvalidField { field: field.to_owned(), problem: problem.to_owned() };
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

/// Empty links don't count.
fn hidden_links(path: &str, fields: &Map<String, Value>, found: &mut Vec<String>) {
    for (name, value) in fields {
        hidden_link(&format!("{path}.{name}"), name, value, found);
    }
}

fn hidden_link(path: &str, name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(link) if is_link(name) && !link.is_empty() && clean_url(link).is_none() => {
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
    use proptest::prelude::*;
    use serde_json::json;
    use tidings_model::wire;

    use super::*;

    #[test]
    fn a_value_is_one_line_whatever_line_breaks_it_has() {
        assert_eq!(clean_text(" a\r\nBcc: b\u{2028}c\u{85}d\0\te ", 100), "a Bcc: b c d e");
    }

    #[test]
    fn an_override_is_removed_and_right_to_left_text_is_isolated() {
        assert_eq!(clean_text("invoice\u{202e}fdp.exe", 100), "invoicefdp.exe");
        assert_eq!(clean_text("שלום (1)", 100), "\u{2068}שלום (1)\u{2069}");
    }

    #[test]
    fn a_subject_that_is_cut_still_ends_its_isolates() {
        assert_eq!(clean_subject("a \u{2068}אבגדה\u{2069} b", 7), "a \u{2068}אב…\u{2069}");
        assert_eq!(clean_subject("a \u{2068}אב\u{2069} b", 8), "a \u{2068}אב\u{2069} b");
        assert_eq!(clean_subject("abcd \u{2068}אב\u{2069}", 6), "abcd…");
        let nested = "\u{2068}a\u{2068}b\u{2069}cdef\u{2069}";
        assert_eq!(clean_subject(nested, 6), "\u{2068}a\u{2068}…\u{2069}\u{2069}");
    }

    #[test]
    fn an_emoji_sequence_survives() {
        assert_eq!(clean_text("👩🏽‍💻 ❤️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿", 100), "👩🏽‍💻 ❤️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿");
    }

    #[test]
    fn a_cut_parts_no_character_that_a_reader_sees() {
        for (raw, cut) in [
            ("xxx👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "xxx👩‍👩‍👧‍👦…"),
            ("xxxxx👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "xxxxx…"),
            ("xxxxxxxxxx🇩🇪🇫🇷", "xxxxxxxxxx…"),
            ("xxxxxxxxxक्षिक्षि", "xxxxxxxxx…"),
        ] {
            assert_eq!(clean_text(raw, 12), cut);
            assert_eq!(clean_subject(raw, 12), cut);
        }
    }

    #[test]
    fn only_http_https_and_mailto_links_survive() {
        let table = [
            ("https://example.com/a b?q=\"<x>", Some("https://example.com/a%20b?q=%22%3Cx%3E")),
            ("http://example.com", Some("http://example.com/")),
            ("mailto:ann@example.com", Some("mailto:ann@example.com")),
            ("mailto:x\"><b>{y}?subject=a b", Some("mailto:x%22%3E%3Cb%3E%7By%7D?subject=a%20b")),
            ("javascript:alert(1)", None),
            (" \u{1}JaVa\tScRiPt:alert(1)", None),
            ("data:text/html,<script>", None),
            ("vbscript:x", None),
            ("file:///etc/passwd", None),
            ("//example.com/relative", None),
            ("", None),
        ];
        for (raw, expected) in table {
            assert_eq!(clean_url(raw).as_deref(), expected, "{raw:?}");
        }
    }

    #[test]
    fn a_link_as_long_as_a_payload_stays_whole() {
        let link = format!("https://example.com/{}", "x".repeat(16_000));
        assert_eq!(clean_url(&link), Some(link));
    }

    #[test]
    fn links_anywhere_in_a_payload_are_checked() {
        let raw =
            serde_json::json!({"pull": {"html_url": "javascript:x", "n": 1}, "link": ["data:x", "https://a.example"]});
        let clean = serde_json::to_value(CleanPayload(raw.as_object().unwrap())).unwrap();
        assert_eq!(
            clean,
            serde_json::json!({"pull": {"html_url": null, "n": 1}, "link": [null, "https://a.example/"]})
        );
    }

    /// Words, some in nested isolates.
    fn isolates() -> impl Strategy<Value = String> {
        "[a-z ]{0,9}".prop_recursive(5, 40, 4, |inner| {
            proptest::collection::vec(inner, 0..4).prop_map(|parts| bidi::isolate_text(&parts.concat()))
        })
    }

    proptest! {
        #[test]
        fn a_value_never_exceeds_its_length_or_its_line(raw in ".{0,60}", max in 1_usize..40) {
            let clean = clean_text(&raw, max);
            let inside = clean.trim_matches([bidi::ISOLATE.0, bidi::ISOLATE.1]);
            prop_assert!(inside.chars().count() <= max);
            prop_assert!(!clean.chars().any(char::is_control));
        }

        #[test]
        fn a_subject_never_exceeds_its_length_and_ends_its_isolates(raw in isolates(), max in 1_usize..40) {
            let line = clean_subject(&raw, max);
            prop_assert!(line.chars().count() <= max, "{:?}", line);
            prop_assert_eq!(line.matches(bidi::ISOLATE.0).count(), line.matches(bidi::ISOLATE.1).count(), "{:?}", line);
        }
    }

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    /// The suspicious fields.
    fn fields(ahead: SignedDuration, payload: &Value) -> Vec<String> {
        let json = json!({
            "tenant": "acme", "digest": "activity", "user": "ann", "event_id": "e1", "category": "comment",
            "occurred_at": NOW + ahead, "payload": payload,
        });
        let wire = wire::parse_event(json.to_string().as_bytes()).unwrap();
        let (_, event) = Event::from_wire(wire, None).unwrap();
        event_warnings(&event, NOW).into_iter().map(|InvalidField { field, .. }| field).collect()
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
