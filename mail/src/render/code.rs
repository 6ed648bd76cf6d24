//! The code of Tera in the source of a template: where it is, and the source without it.

use std::ops::Range;

/// One piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub kind: Kind,
    /// The bytes of the source, with the brackets.
    pub place: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{{ line.title }}`
    Expression,
    /// `{% if line.url %}`
    Statement,
    /// `{# ... #}`
    Comment,
}

/// Finds the code of a source, in order. A piece that does not end is none.
pub(super) fn code(source: &str) -> Vec<Code> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = source[from..].find('{').map(|at| from + at) {
        let kind = match source.as_bytes().get(open + 1) {
            Some(b'{') => Kind::Expression,
            Some(b'%') => Kind::Statement,
            Some(b'#') => Kind::Comment,
            _ => {
                from = open + 1;
                continue;
            }
        };
        let Some(end) = end(source, open + 2, kind) else { break };
        found.push(Code { kind, place: open..end });
        from = end;
    }
    found
}

/// The end of a piece of code. Its brackets inside a string of the code do not end it.
fn end(source: &str, from: usize, kind: Kind) -> Option<usize> {
    let close = match kind {
        Kind::Expression => "}}",
        Kind::Statement => "%}",
        Kind::Comment => return Some(from + source[from..].find("#}")? + 2),
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

/// The source with `x` in place of each byte of an expression, and spaces in place of statements and comments. A statement that
/// makes the name of an element is `x`, too. Every other byte keeps its place.
pub(super) fn blank(source: &str, code: &[Code]) -> String {
    let mut blank = String::with_capacity(source.len());
    let mut from = 0;
    for Code { kind, place } in code {
        blank.push_str(&source[from..place.start]);
        let is_name = *kind == Kind::Statement && ["<", "</"].iter().any(|open| blank.ends_with(open));
        let filler = if *kind == Kind::Expression || is_name { "x" } else { " " };
        blank.push_str(&filler.repeat(place.len()));
        from = place.end;
    }
    blank + &source[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_at_its_own_brackets_and_not_in_a_string() {
        let source = r#"a{{ t(id="}}") }}b{%- if x == '%}' -%}c{# {{ no }} #}{d} {{ <More n={line.more} /> }}{{ open"#;
        let code = code(source);
        let kinds: Vec<_> = code.iter().map(|code| (code.kind, &source[code.place.clone()])).collect();
        assert_eq!(
            kinds,
            [
                (Kind::Expression, r#"{{ t(id="}}") }}"#),
                (Kind::Statement, "{%- if x == '%}' -%}"),
                (Kind::Comment, "{# {{ no }} #}"),
                (Kind::Expression, "{{ <More n={line.more} /> }}"),
            ]
        );
        let blank = blank(source, &code);
        assert_eq!(blank.len(), source.len());
        assert!(blank.starts_with("axxxx") && blank.ends_with("{{ open"), "{blank}");
    }

    #[test]
    fn a_statement_that_makes_a_name_leaves_a_tag() {
        let source = "<{% if a %}b{% else %}i{% endif %}>{% if c %}<p>{% endif %}</{% if a %}b{% endif %}>";
        let blank = blank(source, &code(source));
        assert_eq!(blank.replace([' ', 'x'], ""), "<bi><p></b>");
        assert!(blank.starts_with("<xxxxxxxxxxb ") && blank.contains("> "), "{blank}");
    }
}
