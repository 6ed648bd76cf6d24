//! The statements of a template, and what stands between them.

use std::ops::Range;

use crate::render::{
    code::{Code, Kind as CodeKind},
    html::VOID,
    tag::Mark,
};

/// The text between a statement and its end.
pub(super) struct Region {
    pub kind: Kind,
    /// A branch for each of `if`, `elif` and `else`; one for every other statement.
    pub branches: Vec<Range<usize>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A child template may replace it.
    Block(String),
    /// The definition of a component.
    Component(String),
    /// The content that a component receives.
    Call,
    /// `if`, `for`, `filter`, `set`
    Other,
}

impl Region {
    pub fn contains(&self, at: usize) -> bool {
        self.branches.iter().any(|branch| branch.contains(&at))
    }
}

/// Finds the regions, the inner ones first. A statement that does not end is none.
pub(super) fn regions(source: &str, code: &[Code]) -> Vec<Region> {
    let mut regions = Vec::new();
    let mut open: Vec<(Region, usize)> = Vec::new();
    for Code { place, .. } in code.iter().filter(|code| code.kind == CodeKind::Statement) {
        let said = said(&source[place.clone()]);
        let (word, rest) = word(said);
        let begun = match word {
            "if" | "for" | "filter" => Some(Kind::Other),
            "set" | "set_global" if !self::word(rest).1.starts_with('=') => Some(Kind::Other),
            "block" => Some(Kind::Block(self::word(rest).0.to_owned())),
            "component" => Some(Kind::Component(self::word(rest).0.to_owned())),
            "" if said.starts_with('<') && !said.starts_with("</") && !said.ends_with("/>") => Some(Kind::Call),
            _ => None,
        };
        if let Some(kind) = begun {
            open.push((Region { kind, branches: Vec::new() }, place.end));
        } else if ["else", "elif"].contains(&word) {
            if let Some((region, from)) = open.last_mut() {
                region.branches.push(*from..place.start);
                *from = place.end;
            }
        } else if (word.starts_with("end") || said.starts_with("</"))
            && let Some((mut region, from)) = open.pop()
        {
            region.branches.push(from..place.start);
            regions.push(region);
        }
    }
    regions
}

/// A piece of code without its brackets.
pub(super) fn said(code: &str) -> &str {
    let inside = code.get(2..code.len() - 2).unwrap_or_default();
    inside.trim_start_matches('-').trim_end_matches('-').trim()
}

/// The first word, and what follows.
pub(super) fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// Reports if each element that a branch opens ends in the same branch. Then the ancestors of an element do not depend on
/// conditions.
pub(super) fn is_regular(regions: &[Region], marks: &[Mark<'_>]) -> bool {
    let balanced = |branch: &Range<usize>| {
        let mut open = Vec::new();
        marks.iter().all(|mark| match mark {
            Mark::Start(tag) if branch.contains(&tag.place.start) => {
                if !VOID.iter().any(|void| tag.is(void)) {
                    open.push(tag.name);
                }
                true
            }
            Mark::End { name, at } if branch.contains(at) => {
                open.pop().is_some_and(|begun| begun.eq_ignore_ascii_case(name))
            }
            _ => true,
        }) && open.is_empty()
    };
    regions.iter().all(|region| region.kind != Kind::Call && region.branches.iter().all(balanced))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{
        code::{blank, code},
        tag::marks,
    };

    #[test]
    fn a_region_has_a_branch_for_each_condition() {
        let source = "{% block a %}{% if x %}b{%- elif y -%}c{% else %}d{% endif %}{% set e = 1 %}{% set f %}g{% endset %}{% endblock %}\
                      {% <Card title=\"h\"> %}i{% </Card> %}{% component J(k) %}l{% endcomponent J %}";
        let regions = regions(source, &code(source));
        let found: Vec<_> = regions
            .iter()
            .map(|Region { kind, branches }| {
                (kind.clone(), branches.iter().map(|branch| &source[branch.clone()]).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found[0], (Kind::Other, vec!["b", "c", "d"]));
        assert_eq!(found[1], (Kind::Other, vec!["g"]));
        assert_eq!(found[2].0, Kind::Block("a".into()));
        assert_eq!(found[3], (Kind::Call, vec!["i"]));
        assert_eq!(found[4], (Kind::Component("J".into()), vec!["l"]));
    }

    #[test]
    fn a_branch_that_opens_an_element_and_leaves_it_open_is_found() {
        let regular = |source: &str| {
            let code = code(source);
            is_regular(&regions(source, &code), &marks(&blank(source, &code)))
        };
        assert!(regular("<p>{% if a %}<b>x</b><br>{% else %}<i>x</i>{% endif %}</p>"));
        assert!(regular("<{{ level }}>{% for a in b %}<tr><td></td></tr>{% endfor %}</{{ level }}>"));
        assert!(!regular("{% if a %}<a href=\"{{ a }}\">{% endif %}x{% if a %}</a>{% endif %}"));
        assert!(!regular("{% <Card> %}<p></p>{% </Card> %}"));
    }
}
