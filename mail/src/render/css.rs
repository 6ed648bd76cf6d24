//! Parses a style sheet or `style` attribute into parts with byte positions, and into rules.

use std::ops::Range;

use cssparser::{ParseError, Parser, Token};

use super::tag::HtmlTag;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CssPart<'c> {
    pub kind: CssPartKind<'c>,
    pub at: usize,
    /// Range inside the brackets, and the offset after them.
    block: Option<(Range<usize>, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CssPartKind<'c> {
    /// E.g. `@media (max-width: 480px)`.
    AtRule { name: &'c str, prelude: &'c str },
    /// `a:hover, .card`
    Selector(&'c str),
    /// `color: red`
    Declaration { property: &'c str, value: &'c str },
}

/// Skips invalid CSS.
pub(super) fn parts(css: &str) -> Vec<CssPart<'_>> {
    let mut parts = Vec::new();
    items(&mut Parser::new(css), &mut parts);
    parts
}

fn items<'c>(input: &mut Parser<'c>, parts: &mut Vec<CssPart<'c>>) {
    let mut start = input.position();
    let mut empty = true;
    loop {
        let end = input.position();
        match input.next_including_whitespace_and_comments() {
            Ok(Token::WhiteSpace(_) | Token::Comment(_) | Token::CDO | Token::CDC) if empty => start = input.position(),
            Ok(Token::Semicolon) => {
                parts.extend(item(input.slice(start..end), start.byte_index()));
                (start, empty) = (input.position(), true);
            }
            Ok(Token::CurlyBracketBlock) => {
                let (number, inside) = (parts.len(), input.position());
                parts.push(rule(input.slice(start..end), start.byte_index()));
                let nested = input.parse_nested_block(|input| {
                    items(input, parts);
                    Ok::<_, ParseError<()>>(())
                });
                if nested.is_err() {
                    return;
                }
                let text = input.slice_from(inside);
                let length = text.strip_suffix('}').unwrap_or(text).len();
                let inside = inside.byte_index();
                parts[number].block = Some((inside..inside + length, inside + text.len()));
                (start, empty) = (input.position(), true);
            }
            Ok(Token::Function(_) | Token::ParenthesisBlock | Token::SquareBracketBlock) => {
                empty = false;
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

/// Also parses an at-rule without a block.
fn item(text: &str, at: usize) -> Option<CssPart<'_>> {
    if text.starts_with('@') {
        return Some(rule(text, at));
    }
    let (property, value) = text.split_once(':')?;
    let kind = CssPartKind::Declaration { property: property.trim(), value: value.trim() };
    Some(CssPart { kind, at, block: None })
}

fn rule(text: &str, at: usize) -> CssPart<'_> {
    let prelude = text.trim();
    let Some(at_rule) = prelude.strip_prefix('@') else {
        return CssPart { kind: CssPartKind::Selector(prelude), at, block: None };
    };
    let end = at_rule.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(at_rule.len());
    CssPart { kind: CssPartKind::AtRule { name: &at_rule[..end], prelude: at_rule[end..].trim() }, at, block: None }
}

pub(super) struct CssRule<'h> {
    /// From the selectors to the end of the block.
    pub place: Range<usize>,
    pub written: String,
    pub selectors: Vec<&'h str>,
    pub declarations: Vec<CssDeclaration>,
    pub stays: Option<KeepReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepReason {
    /// Applies conditionally, e.g. inside `@media`.
    Condition,
    Rules,
    /// Dark mode may override its custom properties, but could not override an attribute. Clients with custom
    /// properties read `<style>` anyway.
    Root,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CssDeclaration {
    /// In lower case, unless it is a custom property.
    pub name: String,
    pub value: String,
    pub important: bool,
}

impl CssDeclaration {
    /// Prefix shared by properties that may set the same thing, e.g. `border` for `border-left-color`.
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

pub(super) fn rules<'h>(html: &'h str, sheet: &HtmlTag<'_>) -> Vec<CssRule<'h>> {
    let media = sheet.attribute("media").map_or("", |media| html[media.value.clone()].trim());
    let is_conditional = !["", "all", "screen"].iter().any(|always| media.eq_ignore_ascii_case(always));
    let css = &html[sheet.text.clone()];
    let parts = parts(css);
    let (mut found, mut condition, mut end) = (Vec::new(), 0, 0);
    for (number, part) in parts.iter().enumerate() {
        let Some((block, after)) = &part.block else { continue };
        let CssPartKind::Selector(prelude) = part.kind else {
            condition = condition.max(*after);
            continue;
        };
        if part.at < end {
            continue;
        }
        end = *after;
        let inside: Vec<_> = parts[number + 1..].iter().take_while(|part| part.at < block.end).collect();
        let stays = if is_conditional || part.at < condition {
            Some(KeepReason::Condition)
        } else if prelude.to_ascii_lowercase().contains(":root") {
            Some(KeepReason::Root)
        } else {
            let is_flat = inside.iter().all(|part| matches!(part.kind, CssPartKind::Declaration { .. }));
            (!is_flat).then_some(KeepReason::Rules)
        };
        found.push(CssRule {
            place: sheet.text.start + part.at..sheet.text.start + end,
            written: prelude.split_whitespace().collect::<Vec<_>>().join(" "),
            selectors: selectors(prelude),
            declarations: inside.into_iter().filter_map(declaration).collect(),
            stays,
        });
    }
    found
}

fn declaration(CssPart { kind, .. }: &CssPart<'_>) -> Option<CssDeclaration> {
    let CssPartKind::Declaration { property, value } = *kind else { return None };
    let name = if property.starts_with("--") { property.to_owned() } else { property.to_ascii_lowercase() };
    let plain = value.rsplit_once('!').filter(|(_, end)| end.trim().eq_ignore_ascii_case("important"));
    let value = plain.map_or(value, |(value, _)| value).split_whitespace().collect::<Vec<_>>().join(" ");
    Some(CssDeclaration { name, value, important: plain.is_some() })
}

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

/// Ids, classes and types; the larger wins (Selectors Level 4, 17).
pub(super) fn specificity(selector: &str) -> [usize; 3] {
    strongest_specificity(&mut Parser::new(selector))
}

fn strongest_specificity(input: &mut Parser<'_>) -> [usize; 3] {
    let (mut best, mut own) = ([0; 3], [0; 3]);
    let (is_type, is_class) = (2, 1);
    let (mut next, mut colons) = (is_type, 0);
    while let Ok(token) = input.next_including_whitespace() {
        let token = token.clone();
        match &token {
            Token::IDHash(_) | Token::Hash(_) => own[0] += 1,
            Token::SquareBracketBlock => own[is_class] += 1,
            Token::Ident(_) => own[next] += 1,
            Token::Function(name) if ["is", "not"].iter().any(|of| name.eq_ignore_ascii_case(of)) => {
                let inside = input.parse_nested_block(|input| Ok::<_, ParseError<()>>(strongest_specificity(input)));
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

/// E.g. removes `:hover`.
pub(super) fn without_states(selector: &str) -> String {
    let plain = STATES.iter().fold(selector.to_owned(), |plain, state| plain.replace(state, ""));
    if plain.is_empty() { "*".into() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tag::tags;

    #[test]
    fn a_style_sheet_has_its_rules_and_declarations_in_order() {
        let css = "@import 'x;y.css';\n/* a { } */ .a, b > i { color : red; background:url(a;b) ; }\n\
                   @media (max-width: 480px) { a:hover { margin: 0 !important } }\ni:hover { top: 0 }@font-face { src: x }";
        let found: Vec<_> = parts(css).into_iter().map(|part| part.kind).collect();
        let declaration = |property, value| CssPartKind::Declaration { property, value };
        assert_eq!(
            found,
            [
                CssPartKind::AtRule { name: "import", prelude: "'x;y.css'" },
                CssPartKind::Selector(".a, b > i"),
                declaration("color", "red"),
                declaration("background", "url(a;b)"),
                CssPartKind::AtRule { name: "media", prelude: "(max-width: 480px)" },
                CssPartKind::Selector("a:hover"),
                declaration("margin", "0 !important"),
                CssPartKind::Selector("i:hover"),
                declaration("top", "0"),
                CssPartKind::AtRule { name: "font-face", prelude: "" },
                declaration("src", "x"),
            ]
        );
        assert!(css[parts(css)[2].at..].starts_with("color : red;"));
    }

    #[test]
    fn an_attribute_is_declarations_and_anything_can_be_read() {
        let found: Vec<_> = parts("color:red;; width: 1px").into_iter().map(|part| part.kind).collect();
        let declaration = |property, value| CssPartKind::Declaration { property, value };
        assert_eq!(found, [declaration("color", "red"), declaration("width", "1px")]);
        let found: Vec<_> = parts("color:rgb(1, 2);width:calc(1px + 2px)").into_iter().map(|part| part.kind).collect();
        assert_eq!(found, [declaration("color", "rgb(1, 2)"), declaration("width", "calc(1px + 2px)")]);
        for css in ["", "}", "a {", "a { b: ", ";;", "@", "'", "/*", "{}{}", "a{{}}"] {
            parts(css);
        }
    }

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
                (".b", Some(KeepReason::Condition), 1),
                (".e", Some(KeepReason::Rules), 1),
                (":ROOT", Some(KeepReason::Root), 1),
            ]
        );
        assert!(
            source[rules[0].place.clone()].starts_with(".a, td") && source[rules[0].place.clone()].ends_with(" 0 }")
        );
        let declaration =
            |name: &str, value: &str, important| CssDeclaration { name: name.into(), value: value.into(), important };
        assert_eq!(rules[0].declarations, [declaration("color", "RED", true), declaration("margin", "0", false)]);
    }

    #[test]
    fn properties_of_one_family_may_set_the_same_thing() {
        let family = |name: &str| {
            CssDeclaration { name: name.into(), value: String::new(), important: false }.family().to_owned()
        };
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
