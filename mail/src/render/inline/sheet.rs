//! The rules of the `<style>` elements of a file.

use std::ops::Range;

use cssparser::{ParseError, Parser, Token};

use super::{
    file::File,
    selector::{Selector, selectors},
};
use crate::render::{
    css::{self, Part},
    tag::{Tag, tags},
};

/// A rule: selectors and declarations.
pub(super) struct Rule {
    /// The number of its file.
    pub file: usize,
    /// The bytes of the source, from the selectors to after the block.
    pub place: Range<usize>,
    /// The selectors as written.
    pub written: String,
    pub selectors: Vec<Selector>,
    pub declarations: Vec<Declaration>,
    /// The reason for which the rule stays where it is.
    pub stays: Option<Stays>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stays {
    /// It applies under a condition of CSS, such as `@media`.
    Condition,
    /// It has code of Tera.
    Code,
    /// It has rules inside.
    Rules,
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

/// A `<style>` element.
pub(super) struct Sheet {
    /// The bytes with the tags.
    pub place: Range<usize>,
    pub text: Range<usize>,
    /// It is for other media than a screen.
    is_conditional: bool,
}

/// Finds the `<style>` elements of a file.
pub(super) fn sheets(file: &File<'_>) -> Vec<Sheet> {
    let sheet = |tag: Tag<'_>| {
        let media = tag.attribute("media").map_or("", |media| file.blank[media.value.clone()].trim());
        let is_conditional = !["", "all", "screen"].iter().any(|always| media.eq_ignore_ascii_case(always));
        let end = file.blank[tag.text.end..].find('>').map_or(file.blank.len(), |end| tag.text.end + end + 1);
        Sheet { place: tag.place.start..end, text: tag.text, is_conditional }
    };
    tags(&file.blank).into_iter().filter(|tag| tag.is("style")).map(sheet).collect()
}

/// Finds the rules of a file, in order.
pub(super) fn rules(number: usize, file: &File<'_>) -> Vec<Rule> {
    let mut found = Vec::new();
    for Sheet { text, is_conditional, .. } in sheets(file) {
        let css = &file.blank[text.clone()];
        let mut blocks = Vec::new();
        self::blocks(&mut Parser::new(css), is_conditional, &mut blocks);
        found.extend(blocks.into_iter().map(|block| rule(number, file, css, text.start, block)));
    }
    found
}

/// The beginnings of code, perhaps of a piece that does not end.
const OPEN: [&str; 3] = ["{{", "{%", "{#"];

/// The bytes of a rule in its style sheet.
struct Block {
    start: usize,
    /// Those between the brackets.
    inside: Range<usize>,
    end: usize,
    is_conditional: bool,
}

fn rule(number: usize, file: &File<'_>, css: &str, offset: usize, block: Block) -> Rule {
    let Block { start, inside, end, is_conditional } = block;
    let place = offset + start..offset + end;
    let prelude = css[start..inside.start].trim_end().trim_end_matches('{');
    let head_end = offset + start + prelude.len();
    let (declarations, is_flat) = declarations(&css[inside]);
    // What a selector of Tera matches is not known before the message is made.
    let selectors = if file.code_in(place.start, head_end).next().is_some() { Vec::new() } else { selectors(prelude) };
    let stays = if is_conditional {
        Some(Stays::Condition)
    } else if file.code_in(place.start, place.end).next().is_some()
        || OPEN.iter().any(|open| css[start..end].contains(open))
    {
        Some(Stays::Code)
    } else {
        (!is_flat).then_some(Stays::Rules)
    };
    let written = file.source[place.start..head_end].split_whitespace().collect::<Vec<_>>().join(" ");
    Rule { file: number, place, written, selectors, declarations, stays }
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

/// Reads the declarations of a block, and reports if there is nothing else.
fn declarations(block: &str) -> (Vec<Declaration>, bool) {
    let parts = css::parts(block);
    let is_flat = parts.iter().all(|part| matches!(part.kind, css::Kind::Declaration { .. }));
    let one = |Part { kind, .. }: &Part<'_>| {
        let css::Kind::Declaration { property, value } = *kind else { return None };
        let name = if property.starts_with("--") { property.to_owned() } else { property.to_ascii_lowercase() };
        let plain = value.rsplit_once('!').filter(|(_, end)| end.trim().eq_ignore_ascii_case("important"));
        let value = plain.map_or(value, |(value, _)| value).split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Declaration { name, value, important: plain.is_some() })
    };
    (parts.iter().filter_map(one).collect(), is_flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_element_has_its_rules_with_places_and_reasons_to_stay() {
        let source = "<p><style>\n/* a */ .a, td > i { Color: RED !important; margin:\n 0 }@media (x) { .b { top: 0 } }\n\
                      .c { color: {{ c }} } .{{ d }} { left: 0 }.e{&:hover{top:0}}@font-face{src:x}</style>";
        let rules = rules(3, &File::new("a/body.html", source, true));
        let found: Vec<_> =
            rules.iter().map(|rule| (rule.written.as_str(), rule.stays, rule.selectors.len())).collect();
        assert_eq!(
            found,
            [
                (".a, td > i", None, 2),
                (".b", Some(Stays::Condition), 1),
                (".c", Some(Stays::Code), 1),
                (".{{ d }}", Some(Stays::Code), 0),
                (".e", Some(Stays::Rules), 1),
            ]
        );
        assert!(
            source[rules[0].place.clone()].starts_with(".a, td") && source[rules[0].place.clone()].ends_with(" 0 }")
        );
        let declaration =
            |name: &str, value: &str, important| Declaration { name: name.into(), value: value.into(), important };
        assert_eq!(rules[0].declarations, [declaration("color", "RED", true), declaration("margin", "0", false)]);
        assert_eq!(rules[0].file, 3);
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
}
