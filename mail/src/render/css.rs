//! The parts of a style sheet, or of a `style` attribute, with their places.

use cssparser::{ParseError, Parser, Token};

/// A part of a style sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'c> {
    pub kind: Kind<'c>,
    /// The byte at which the part begins.
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'c> {
    /// `@media (max-width: 480px)`: its name, and what follows.
    AtRule { name: &'c str, prelude: &'c str },
    /// `a:hover, .card`
    Selector(&'c str),
    /// `color: red`
    Declaration { property: &'c str, value: &'c str },
}

/// Finds the parts of a style sheet, in order. What CSS cannot read is left out.
pub(super) fn parts(css: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    items(&mut Parser::new(css), &mut parts);
    parts
}

/// Reads rules and declarations up to the end of a block.
fn items<'c>(input: &mut Parser<'c>, parts: &mut Vec<Part<'c>>) {
    let mut start = input.position();
    let mut empty = true;
    loop {
        let end = input.position();
        match input.next_including_whitespace_and_comments() {
            Ok(Token::WhiteSpace(_) | Token::Comment(_)) if empty => start = input.position(),
            Ok(Token::Semicolon) => {
                parts.extend(item(input.slice(start..end), start.byte_index()));
                (start, empty) = (input.position(), true);
            }
            Ok(Token::CurlyBracketBlock) => {
                parts.push(rule(input.slice(start..end), start.byte_index()));
                let nested = input.parse_nested_block(|input| {
                    items(input, parts);
                    Ok::<_, ParseError<()>>(())
                });
                if nested.is_err() {
                    return;
                }
                (start, empty) = (input.position(), true);
            }
            Ok(Token::Function(_) | Token::ParenthesisBlock | Token::SquareBracketBlock) => {
                empty = false;
                // Reads on to the end of the brackets, which are a part of the item.
                let nested = input.parse_nested_block(|input| {
                    while input.next_including_whitespace_and_comments().is_ok() {}
                    Ok::<_, ParseError<()>>(())
                });
                if nested.is_err() {
                    return;
                }
            }
            Ok(_) => empty = false,
            Err(_) => {
                parts.extend(item(input.slice(start..end), start.byte_index()));
                return;
            }
        }
    }
}

/// A declaration, or an at-rule without a block.
fn item(text: &str, at: usize) -> Option<Part<'_>> {
    if text.starts_with('@') {
        return Some(rule(text, at));
    }
    let (property, value) = text.split_once(':')?;
    let kind = Kind::Declaration { property: property.trim(), value: value.trim() };
    Some(Part { kind, at })
}

/// A rule by what stands before its block.
fn rule(text: &str, at: usize) -> Part<'_> {
    let prelude = text.trim();
    let Some(at_rule) = prelude.strip_prefix('@') else {
        return Part { kind: Kind::Selector(prelude), at };
    };
    let end = at_rule.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(at_rule.len());
    Part { kind: Kind::AtRule { name: &at_rule[..end], prelude: at_rule[end..].trim() }, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_sheet_has_its_rules_and_declarations_in_order() {
        let css = "@import 'x;y.css';\n/* a { } */ .a, b > i { color : red; background:url(a;b) ; }\n\
                   @media (max-width: 480px) { a:hover { margin: 0 !important } }\ni:hover { top: 0 }@font-face { src: x }";
        let found: Vec<_> = parts(css).into_iter().map(|part| part.kind).collect();
        let declaration = |property, value| Kind::Declaration { property, value };
        assert_eq!(
            found,
            [
                Kind::AtRule { name: "import", prelude: "'x;y.css'" },
                Kind::Selector(".a, b > i"),
                declaration("color", "red"),
                declaration("background", "url(a;b)"),
                Kind::AtRule { name: "media", prelude: "(max-width: 480px)" },
                Kind::Selector("a:hover"),
                declaration("margin", "0 !important"),
                Kind::Selector("i:hover"),
                declaration("top", "0"),
                Kind::AtRule { name: "font-face", prelude: "" },
                declaration("src", "x"),
            ]
        );
        assert!(css[parts(css)[2].at..].starts_with("color : red;"));
    }

    #[test]
    fn an_attribute_is_declarations_and_anything_can_be_read() {
        let found: Vec<_> = parts("color:red;; width: 1px").into_iter().map(|part| part.kind).collect();
        let declaration = |property, value| Kind::Declaration { property, value };
        assert_eq!(found, [declaration("color", "red"), declaration("width", "1px")]);
        let found: Vec<_> = parts("color:rgb(1, 2);width:calc(1px + 2px)").into_iter().map(|part| part.kind).collect();
        assert_eq!(found, [declaration("color", "rgb(1, 2)"), declaration("width", "calc(1px + 2px)")]);
        for css in ["", "}", "a {", "a { b: ", ";;", "@", "'", "/*", "{}{}", "a{{}}"] {
            parts(css);
        }
    }
}
