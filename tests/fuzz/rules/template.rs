//! Payloads in the shipped templates: whatever they hold, the mail is whole, safe, bounded and the same twice.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use tidings_mail::render::{HTML_BYTES, RenderedEmail, SUBJECT_CHARS, TemplateRenderer, TemplateView};
use tidings_model::records::DigestLine;

use super::{
    html,
    lines::lines,
    link,
    presentable::assert_presentable,
    view::{group, view},
};

static RENDERER: LazyLock<TemplateRenderer> =
    LazyLock::new(|| TemplateRenderer::new(None).expect("the shipped templates"));

/// Lines of a group: category, entity type, entity id, actor, title, url, excerpt, payload as JSON, count and its name.
const GROUP_LINES: usize = 9;
/// Groups of a digest with the shipped limits.
const GROUPS: usize = 50;
/// Languages with and without plurals, of both directions.
const LANGUAGES: [&str; 5] = ["en", "ar", "ja", "pl", "fr"];

/// Lines: how often the groups are repeated, the recipient's name, and then groups.
///
/// # Panics
/// Where a rule is broken.
pub fn template(bytes: &[u8]) {
    let input = lines(bytes);
    let (head, rest) = input.split_at(input.len().min(2));
    let copies = head.first().and_then(|text| text.trim().parse::<usize>().ok()).unwrap_or(1).clamp(1, GROUPS);
    let groups: Vec<_> = rest.chunks(GROUP_LINES).map(read).collect();
    let lines: Vec<_> = groups.iter().cycle().take((groups.len() * copies).min(GROUPS)).cloned().collect();
    let language = LANGUAGES[bytes.len() % LANGUAGES.len()];
    let view = view(lines, head.get(1).map_or("", String::as_str), language);
    for template in RENDERER.names() {
        let mail = RENDERER.render(&template, &view).expect("the shipped template renders");
        assert_eq!(mail.fallback, None, "{template}");
        fits(&mail, &view);
        assert!(RENDERER.render(&template, &view).is_ok_and(|again| again == mail), "{template} is not the same twice");
    }
}

fn read(lines: &[String]) -> DigestLine {
    let line = |index: usize| lines.get(index).cloned().unwrap_or_default();
    let mut payload = serde_json::from_str::<Map<String, Value>>(&line(7)).unwrap_or_default();
    for (name, value) in [("title", line(4)), ("url", line(5)), ("excerpt", line(6))] {
        if !value.is_empty() {
            payload.insert(name.to_owned(), value.into());
        }
    }
    let counted = line(8);
    let (number, name) = counted.split_once(' ').unwrap_or_default();
    let count = number.parse::<i64>().ok().map(|number| (name.to_owned(), number));
    DigestLine {
        category: line(0),
        entity_type: line(1),
        entity_id: line(2),
        counts: count.into_iter().collect(),
        actors: vec![line(3)],
        ..group(&line(3), payload)
    }
}

fn fits(mail: &RenderedEmail, view: &TemplateView) {
    let RenderedEmail { subject, html, text, .. } = mail;
    assert_presentable("a subject", subject, 4 * SUBJECT_CHARS);
    assert!(!subject.is_empty() && subject.chars().count() <= SUBJECT_CHARS, "{subject:?}");
    assert!(html.len() < HTML_BYTES, "{} bytes of HTML", html.len());
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    for line in subject.lines().chain(text.lines()) {
        assert!(!reorders_its_surroundings(line), "{line:?}");
    }
    let tags = html::tags(html);
    let links = tags.iter().flat_map(|tag| &tag.attributes).filter(|(name, _)| *name == "href");
    for (_, link) in links {
        link::harmless(&html::unescaped(link));
    }
    // A value that began a line of its own would look like one more of the digest's.
    let shown = tags.iter().filter(|tag| tag.has("class", "left right rule")).count();
    // The first line is the headline, which may begin with any value. Below the rule, the recipient's own name may begin a line.
    let (digest, _) = text.rsplit_once("\n----\n").expect("a rule above the footer");
    assert_eq!(digest.lines().skip(1).filter(|line| line.starts_with("* ")).count(), shown, "{text}");
    assert!(shown <= view.digest.lines.len());
}

/// Overrides, embeddings and what is not isolated to its end (UAX #9).
fn reorders_its_surroundings(line: &str) -> bool {
    let mut open = 0;
    for c in line.chars() {
        match c {
            '\u{2068}' => open += 1,
            '\u{2069}' if open > 0 => open -= 1,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => return true,
            _ => {}
        }
    }
    open > 0
}
