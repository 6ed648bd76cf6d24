//! HTML read strictly: only the markup that the shipped templates are made of, so that anything a value adds shows.

/// Elements of the shipped templates.
const ELEMENTS: [&str; 16] = [
    "!doctype", "html", "head", "meta", "title", "style", "body", "div", "table", "tr", "td", "h1", "h2", "p", "a", "b",
];
/// Attributes of the shipped templates.
const ATTRIBUTES: [&str; 13] = [
    "align",
    "border",
    "cellpadding",
    "cellspacing",
    "charset",
    "class",
    "content",
    "dir",
    "href",
    "lang",
    "name",
    "role",
    "style",
];

/// A start or end tag.
pub(super) struct Tag<'a> {
    pub attributes: Vec<(&'a str, &'a str)>,
}

impl Tag<'_> {
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.attributes.contains(&(name, value))
    }
}

/// The tags, without those in comments.
///
/// # Panics
/// Where something is no tag of a shipped template.
pub(super) fn tags(html: &str) -> Vec<Tag<'_>> {
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some((text, markup)) = rest.split_once('<') {
        assert!(!text.contains('>'), "text with a bracket: {text:?}");
        if let Some(comment) = markup.strip_prefix("!--") {
            rest = comment.split_once("-->").expect("a comment ends").1;
            continue;
        }
        let (tag, after) = tag(markup);
        tags.push(tag);
        rest = after;
    }
    assert!(!rest.contains('>') && html.ends_with("</html>\n"), "the end is cut: {rest:?}");
    tags
}

/// The tag whose bracket is open, and what follows it.
fn tag(markup: &str) -> (Tag<'_>, &str) {
    let inside = markup.strip_prefix('/').unwrap_or(markup);
    let end = inside.find([' ', '>']).expect("a tag ends");
    let (name, mut rest) = inside.split_at(end);
    assert!(ELEMENTS.contains(&name) || name == "span", "<{name}> is in no template");
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return (Tag { attributes }, after);
        }
        if let Some(after) = rest.strip_prefix("html>") {
            return (Tag { attributes }, after);
        }
        let (name, value) = rest.split_once("=\"").expect("an attribute has a quoted value");
        assert!(ATTRIBUTES.contains(&name) || name == "width", "the attribute {name:?} is in no template");
        let (value, after) = value.split_once('"').expect("a value ends");
        attributes.push((name, value));
        rest = after;
    }
}

/// The characters that the renderer escapes, as they were.
pub(super) fn unescaped(value: &str) -> String {
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#96;", "`"), ("&amp;", "&")];
    entities.iter().fold(value.to_owned(), |text, (entity, character)| text.replace(entity, character))
}
