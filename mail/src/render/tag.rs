//! HTML tags and their attributes with byte positions, and the Tera code between them. The HTML may be a
//! template source with its code blanked.

use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HtmlTag<'h> {
    pub name: &'h str,
    /// From `<` to after `>`.
    pub place: Range<usize>,
    pub attributes: Vec<HtmlAttribute<'h>>,
    /// Content of elements without inner markup, e.g. `style`; empty for all others.
    pub text: Range<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HtmlAttribute<'h> {
    pub name: &'h str,
    pub place: Range<usize>,
    /// Without quotes; empty if there is no value.
    pub value: Range<usize>,
    pub quote: Option<char>,
}

pub(super) enum TagEdge<'h> {
    Start(HtmlTag<'h>),
    End { name: &'h str, at: usize },
}

impl<'h> TagEdge<'h> {
    pub fn at(&self) -> usize {
        match self {
            Self::Start(tag) => tag.place.start,
            Self::End { at, .. } => *at,
        }
    }

    pub fn start_tag(&self) -> Option<&HtmlTag<'h>> {
        match self {
            Self::Start(tag) => Some(tag),
            Self::End { .. } => None,
        }
    }
}

/// Elements with only text up to their end tag (HTML, 13.1.2).
const TEXT: [&str; 4] = ["script", "style", "textarea", "title"];

impl HtmlTag<'_> {
    pub fn has_name(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    pub fn attribute(&self, name: &str) -> Option<&HtmlAttribute<'_>> {
        self.attributes.iter().find(|attribute| attribute.name.eq_ignore_ascii_case(name))
    }
}

pub(super) fn tags(html: &str) -> Vec<HtmlTag<'_>> {
    let start = |mark| match mark {
        TagEdge::Start(tag) => Some(tag),
        TagEdge::End { .. } => None,
    };
    tag_edges(html).into_iter().filter_map(start).collect()
}

pub(super) fn tag_edges(html: &str) -> Vec<TagEdge<'_>> {
    let mut marks = Vec::new();
    let mut from = 0;
    while let Some(open) = html[from..].find('<').map(|at| from + at) {
        let rest = &html[open..];
        let is_named = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic());
        from = if rest.starts_with("<!--") {
            rest.find("-->").map_or(html.len(), |end| open + end + 3)
        } else if is_named(&rest[1..]) {
            let Some(mut tag) = tag(html, open) else { break };
            if TEXT.iter().any(|name| tag.has_name(name)) {
                tag.text = tag.place.end..end_of_text(html, tag.name, tag.place.end);
            }
            let end = tag.place.end.max(tag.text.end);
            marks.push(TagEdge::Start(tag));
            end
        } else if let Some(name) = rest.strip_prefix("</").filter(|rest| is_named(rest)) {
            let end = name.find(|c: char| c.is_ascii_whitespace() || c == '/' || c == '>').unwrap_or(name.len());
            marks.push(TagEdge::End { name: &name[..end], at: open });
            open + 2 + end
        } else {
            open + 1
        };
    }
    marks
}

fn end_of_text(html: &str, name: &str, from: usize) -> usize {
    let is_end = |at: &usize| html.get(at + 2..at + 2 + name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name));
    html[from..].match_indices("</").map(|(at, _)| from + at).find(is_end).unwrap_or(html.len())
}

/// `None` if the tag is never closed.
fn tag(html: &str, open: usize) -> Option<HtmlTag<'_>> {
    let until = |from: usize, ends: &dyn Fn(char) -> bool| html[from..].find(ends).map(|at| from + at);
    let is_end = |c: char| c.is_ascii_whitespace() || c == '/' || c == '>';
    let mut at = until(open + 1, &is_end)?;
    let name = &html[open + 1..at];
    let mut attributes = Vec::new();
    loop {
        at = until(at, &|c| !c.is_ascii_whitespace() && c != '/')?;
        if html[at..].starts_with('>') {
            return Some(HtmlTag { name, place: open..at + 1, attributes, text: 0..0 });
        }
        let start = at;
        at = until(start + html[start..].chars().next()?.len_utf8(), &|c| is_end(c) || c == '=')?;
        let name = &html[start..at];
        let after = until(at, &|c| !c.is_ascii_whitespace())?;
        if !html[after..].starts_with('=') {
            attributes.push(HtmlAttribute { name, place: start..at, value: at..at, quote: None });
            continue;
        }
        let begin = until(after + 1, &|c| !c.is_ascii_whitespace())?;
        let quote = html[begin..].chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = match quote {
            Some(quote) => begin + 1..until(begin + 1, &|c| c == quote)?,
            None => begin..until(begin, &|c| c.is_ascii_whitespace() || c == '>')?,
        };
        at = value.end + usize::from(quote.is_some());
        attributes.push(HtmlAttribute { name, place: start..at, value, quote });
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeraCode {
    pub kind: TeraCodeKind,
    pub place: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TeraCodeKind {
    /// `{{ line.title }}`
    Expression,
    /// `{% if line.url %}`
    Statement,
    /// `{# ... #}`
    Comment,
}

/// Ignores unterminated code.
pub(super) fn code(source: &str) -> Vec<TeraCode> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = source[from..].find('{').map(|at| from + at) {
        let kind = match source.as_bytes().get(open + 1) {
            Some(b'{') => TeraCodeKind::Expression,
            Some(b'%') => TeraCodeKind::Statement,
            Some(b'#') => TeraCodeKind::Comment,
            _ => {
                from = open + 1;
                continue;
            }
        };
        let Some(end) = end(source, open + 2, kind) else { break };
        found.push(TeraCode { kind, place: open..end });
        from = end;
    }
    found
}

fn end(source: &str, from: usize, kind: TeraCodeKind) -> Option<usize> {
    let close = match kind {
        TeraCodeKind::Expression => "}}",
        TeraCodeKind::Statement => "%}",
        TeraCodeKind::Comment => return Some(from + source[from..].find("#}")? + 2),
    };
    let mut string = None;
    for (at, byte) in source.bytes().enumerate().skip(from) {
        match (string, byte) {
            (Some(quote), _) if quote == byte => string = None,
            (None, b'"' | b'\'' | b'`') => string = Some(byte),
            (None, _) if source.as_bytes()[at..].starts_with(close.as_bytes()) => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// Replaces each byte of an expression with `x`, and statements and comments with spaces. A statement that
/// produces an element's name also becomes `x`. All other bytes keep their positions.
pub(super) fn blank_code(source: &str, code: &[TeraCode]) -> String {
    let mut blank = String::with_capacity(source.len());
    let mut from = 0;
    for TeraCode { kind, place } in code {
        blank.push_str(&source[from..place.start]);
        let is_name = *kind == TeraCodeKind::Statement && ["<", "</"].iter().any(|open| blank.ends_with(open));
        let filler = if *kind == TeraCodeKind::Expression || is_name { "x" } else { " " };
        blank.push_str(&filler.repeat(place.len()));
        from = place.end;
    }
    blank + &source[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_its_attributes_as_a_browser_reads_them() {
        let html = "<!doctype html><!--[if mso]><b c=d><![endif]--><A href = '>' hidden class=a/b id><br/></a>< p><i";
        let tags = tags(html);
        let names: Vec<_> = tags.iter().map(|tag| tag.name).collect();
        assert_eq!(names, ["A", "br"]);
        let value = |name: &str| tags[0].attribute(name).map(|attribute| &html[attribute.value.clone()]);
        assert_eq!(
            (value("href"), value("hidden"), value("class"), value("id"), value("x")),
            (Some(">"), Some(""), Some("a/b"), Some(""), None)
        );
        assert_eq!(&html[tags[0].attributes[0].place.clone()], "href = '>'");
    }

    #[test]
    fn the_text_of_a_style_has_no_tags() {
        let html = "<style media=print>a > b {} /* <i> */</STYLE><title><b></title><p>";
        let tags = tags(html);
        let texts: Vec<_> = tags.iter().map(|tag| &html[tag.text.clone()]).collect();
        assert_eq!(texts, ["a > b {} /* <i> */", "<b>", ""]);
    }

    #[test]
    fn code_ends_at_its_own_brackets_and_not_in_a_string() {
        let source = r#"a{{ t(id="}}") }}b{%- if x == '%}' -%}c{# {{ no }} #}{d} {{ <More n={line.more} /> }}{{ open"#;
        let code = code(source);
        let kinds: Vec<_> = code.iter().map(|code| (code.kind, &source[code.place.clone()])).collect();
        assert_eq!(
            kinds,
            [
                (TeraCodeKind::Expression, r#"{{ t(id="}}") }}"#),
                (TeraCodeKind::Statement, "{%- if x == '%}' -%}"),
                (TeraCodeKind::Comment, "{# {{ no }} #}"),
                (TeraCodeKind::Expression, "{{ <More n={line.more} /> }}"),
            ]
        );
        let blank = blank_code(source, &code);
        assert_eq!(blank.len(), source.len());
        assert!(blank.starts_with("axxxx") && blank.ends_with("{{ open"), "{blank}");
    }

    #[test]
    fn a_statement_that_makes_a_name_leaves_a_tag() {
        let source = "<{% if a %}b{% else %}i{% endif %}>{% if c %}<p>{% endif %}</{% if a %}b{% endif %}>";
        let blank = blank_code(source, &code(source));
        assert_eq!(blank.replace([' ', 'x'], ""), "<bi><p></b>");
        assert!(blank.starts_with("<xxxxxxxxxxb ") && blank.contains("> "), "{blank}");
    }
}
