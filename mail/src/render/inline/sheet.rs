//! The rules of a `<style>` element, and how CSS ranks them.

use std::ops::Range;

use cssparser::{ParseError, Parser, Token};

use crate::render::{
    css::{self, Part},
    tag::Tag,
};

/// A rule: selectors and declarations.
pub(super) struct Rule<'h> {
    /// The bytes of the text, from the selectors to after the block.
    pub place: Range<usize>,
    /// The selectors as written, on one line.
    pub written: String,
    pub selectors: Vec<&'h str>,
    pub declarations: Vec<Declaration>,
    /// The reason for which the rule stays where it is.
    pub stays: Option<Stays>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stays {
    /// It applies under a condition of CSS, such as `@media`.
    Condition,
    /// It has rules inside.
    Rules,
    /// Dark mode may give its custom properties other values, which an attribute would override. A client that knows such properties
    /// reads `<style>`.
    Root,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declaration {
    /// In lower case, except for a custom property.
    pub name: String,
    /// On one line, without `!important`.
    pub value: String,
    pub important: bool,
}

impl Declaration {
    /// The name that properties share which may set the same thing: `border` for `border-left-color`.
    pub fn family(&self) -> &str {
        if self.name.starts_with("--") {
            return &self.name;
        }
        let name = self.name.strip_prefix('-').and_then(|name| Some(name.split_once('-')?.1)).unwrap_or(&self.name);
        match name {
            "line-height" => "font",
            _ => name.split('-').next().unwrap_or(name),
        }
    }
}

/// Finds the rules of a `<style>`, in order.
pub(super) fn rules<'h>(html: &'h str, sheet: &Tag<'_>) -> Vec<Rule<'h>> {
    let media = sheet.attribute("media").map_or("", |media| html[media.value.clone()].trim());
    let is_conditional = !["", "all", "screen"].iter().any(|always| media.eq_ignore_ascii_case(always));
    let css = &html[sheet.text.clone()];
    let mut blocks = Vec::new();
    self::blocks(&mut Parser::new(css), is_conditional, &mut blocks);
    let rule = |Block { start, inside, end, is_conditional }: Block| {
        let prelude = css[start..inside.start].trim_end().trim_end_matches('{');
        let parts = css::parts(&css[inside]);
        let is_flat = parts.iter().all(|part| matches!(part.kind, css::Kind::Declaration { .. }));
        let stays = if is_conditional {
            Some(Stays::Condition)
        } else if prelude.to_ascii_lowercase().contains(":root") {
            Some(Stays::Root)
        } else {
            (!is_flat).then_some(Stays::Rules)
        };
        Rule {
            place: sheet.text.start + start..sheet.text.start + end,
            written: prelude.split_whitespace().collect::<Vec<_>>().join(" "),
            selectors: selectors(prelude),
            declarations: parts.iter().filter_map(declaration).collect(),
            stays,
        }
    };
    blocks.into_iter().map(rule).collect()
}

/// The bytes of a rule in its style sheet.
struct Block {
    start: usize,
    /// Those between the brackets.
    inside: Range<usize>,
    end: usize,
    is_conditional: bool,
}

/// Reads rules up to the end of a block.
fn blocks(input: &mut Parser<'_>, is_conditional: bool, found: &mut Vec<Block>) {
    let mut start = input.position();
    let mut empty = true;
    loop {
        let end = input.position();
        match input.next_including_whitespace_and_comments() {
            Ok(Token::WhiteSpace(_) | Token::Comment(_) | Token::CDO | Token::CDC) if empty => start = input.position(),
            Ok(Token::Semicolon) => (start, empty) = (input.position(), true),
            Ok(Token::CurlyBracketBlock) => {
                let inside = input.position();
                let is_at_rule = input.slice(start..end).trim_start().starts_with('@');
                let read = input.parse_nested_block(|input| {
                    if is_at_rule {
                        blocks(input, true, found);
                    } else {
                        while input.next_including_whitespace_and_comments().is_ok() {}
                    }
                    Ok::<_, ParseError<()>>(())
                });
                let after = input.position();
                if !is_at_rule && read.is_ok() {
                    let text = input.slice(inside..after);
                    let length = text.strip_suffix('}').unwrap_or(text).len();
                    let inside = inside.byte_index()..inside.byte_index() + length;
                    found.push(Block { start: start.byte_index(), inside, end: after.byte_index(), is_conditional });
                }
                (start, empty) = (after, true);
            }
            Ok(_) => empty = false,
            Err(_) => return,
        }
    }
}

fn declaration(Part { kind, .. }: &Part<'_>) -> Option<Declaration> {
    let css::Kind::Declaration { property, value } = *kind else { return None };
    let name = if property.starts_with("--") { property.to_owned() } else { property.to_ascii_lowercase() };
    let plain = value.rsplit_once('!').filter(|(_, end)| end.trim().eq_ignore_ascii_case("important"));
    let value = plain.map_or(value, |(value, _)| value).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Declaration { name, value, important: plain.is_some() })
}

/// Parts a list of selectors at its commas.
fn selectors(list: &str) -> Vec<&str> {
    let mut input = Parser::new(list);
    let (mut found, mut from) = (Vec::new(), input.position());
    loop {
        let is_comma = input.next_including_whitespace_and_comments().map(|token| *token == Token::Comma);
        if is_comma != Ok(false) {
            found.push(input.slice_from(from).trim_end_matches(',').trim());
            from = input.position();
        }
        if is_comma.is_err() {
            return found;
        }
    }
}

/// The numbers of ids, of classes and of types: the larger wins (Selectors Level 4, 17).
pub(super) fn specificity(selector: &str) -> [usize; 3] {
    strongest(&mut Parser::new(selector))
}

/// The specificity of the strongest selector of a list.
fn strongest(input: &mut Parser<'_>) -> [usize; 3] {
    let (mut best, mut own) = ([0; 3], [0; 3]);
    // The place that the next name counts for.
    let (is_type, is_class) = (2, 1);
    let (mut next, mut colons) = (is_type, 0);
    while let Ok(token) = input.next_including_whitespace() {
        let token = token.clone();
        match &token {
            Token::IDHash(_) | Token::Hash(_) => own[0] += 1,
            Token::SquareBracketBlock => own[is_class] += 1,
            Token::Ident(_) => own[next] += 1,
            Token::Function(name) if ["is", "not"].iter().any(|of| name.eq_ignore_ascii_case(of)) => {
                let inside = input.parse_nested_block(|input| Ok::<_, ParseError<()>>(strongest(input)));
                own.iter_mut().zip(inside.unwrap_or_default()).for_each(|(own, inside)| *own += inside);
            }
            Token::Function(name) if !name.eq_ignore_ascii_case("where") => own[next] += 1,
            Token::Comma => best = best.max(std::mem::take(&mut own)),
            _ => {}
        }
        colons = if token == Token::Colon { colons + 1 } else { 0 };
        next = if token == Token::Delim('.') || colons == 1 { is_class } else { is_type };
    }
    best.max(own)
}

const STATES: [&str; 8] =
    [":focus-visible", ":focus-within", ":focus", ":active", ":checked", ":hover", ":target", ":visited"];

/// The selector for the same elements in any state.
pub(super) fn without_states(selector: &str) -> String {
    let plain = STATES.iter().fold(selector.to_owned(), |plain, state| plain.replace(state, ""));
    if plain.is_empty() { "*".into() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tag::tags;

    #[test]
    fn a_style_element_has_its_rules_with_places_and_reasons_to_stay() {
        let source = "<p><style>\n/* a */ .a, td > i { Color: RED !important; margin:\n 0 }@media (x) { .b { top: 0 } }\n\
                      .e{&:hover{top:0}}@font-face{src:x} :ROOT{--x:y}</style>";
        let rules = rules(source, &tags(source)[1]);
        let found: Vec<_> =
            rules.iter().map(|rule| (rule.written.as_str(), rule.stays, rule.selectors.len())).collect();
        assert_eq!(
            found,
            [
                (".a, td > i", None, 2),
                (".b", Some(Stays::Condition), 1),
                (".e", Some(Stays::Rules), 1),
                (":ROOT", Some(Stays::Root), 1),
            ]
        );
        assert!(
            source[rules[0].place.clone()].starts_with(".a, td") && source[rules[0].place.clone()].ends_with(" 0 }")
        );
        let declaration =
            |name: &str, value: &str, important| Declaration { name: name.into(), value: value.into(), important };
        assert_eq!(rules[0].declarations, [declaration("color", "RED", true), declaration("margin", "0", false)]);
    }

    #[test]
    fn properties_of_one_family_may_set_the_same_thing() {
        let family =
            |name: &str| Declaration { name: name.into(), value: String::new(), important: false }.family().to_owned();
        for (name, expected) in [
            ("border-left-color", "border"),
            ("-webkit-border-radius", "border"),
            ("line-height", "font"),
            ("font-size", "font"),
            ("color", "color"),
            ("--my-x", "--my-x"),
        ] {
            assert_eq!(family(name), expected);
        }
    }

    #[test]
    fn a_selector_is_as_specific_as_css_says() {
        for (css, expected) in [
            (" TD.Card#x ", [1, 1, 1]),
            ("table > tr td", [0, 0, 3]),
            ("a /* b */ i", [0, 0, 2]),
            (".a>.b", [0, 2, 0]),
            ("* td", [0, 0, 1]),
            ("td:first-child", [0, 1, 1]),
            ("a[href]", [0, 1, 1]),
            ("p + b", [0, 0, 2]),
            ("td:nth-child(2n + 1) i", [0, 1, 2]),
            ("p::before", [0, 0, 2]),
            (".\\31 a td:not(.b, #c)", [1, 1, 1]),
            (":where(.a) :is(p, .b) a", [0, 1, 1]),
        ] {
            assert_eq!(specificity(css), expected, "{css}");
        }
        for css in ["", ",", ">", "..", "a >", ": :", "&", "#", "a||b", "a:not("] {
            assert_eq!(selectors(css).len(), 1 + usize::from(css == ","), "{css}");
            specificity(css);
        }
    }
}
