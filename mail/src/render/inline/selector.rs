//! The selectors of rules, as far as the source of a template can decide them.

use cssparser::{Parser, Token};

/// A selector without the commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    /// The conditions for the element and those around it, from the outermost one. The last is the element's own.
    pub compounds: Vec<Compound>,
    pub reach: Reach,
}

/// The knowledge of the elements that a selector matches, from the most exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// The compounds decide.
    Exact,
    /// Something else decides, too: siblings, attributes, the position.
    Wider,
    /// The state decides, too: `:hover`.
    State,
    /// The styles are those of another box: `::before`.
    Box,
    /// It is not valid.
    Nothing,
}

/// The conditions for one element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compound {
    /// The element is the child of the one before, and not any descendant.
    pub is_child: bool,
    pub features: Vec<Feature>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    /// In lower case.
    Type(String),
    Class(String),
    Id(String),
}

/// The type that each element has.
pub(super) const ANY: &str = "*";
const STATES: [&str; 8] = ["active", "checked", "focus", "focus-visible", "focus-within", "hover", "target", "visited"];
/// Boxes that CSS 2 writes with one colon.
const BOXES: [&str; 4] = ["after", "before", "first-letter", "first-line"];

impl Selector {
    /// The numbers of ids, classes and types: the larger wins (Selectors Level 4, 17).
    pub fn specificity(&self) -> (usize, usize, usize) {
        let features = || self.compounds.iter().flat_map(|compound| &compound.features);
        let count = |of: fn(&&Feature) -> bool| features().filter(of).count();
        (
            count(|feature| matches!(feature, Feature::Id(_))),
            count(|feature| matches!(feature, Feature::Class(_))),
            count(|feature| matches!(feature, Feature::Type(name) if name != ANY)),
        )
    }
}

/// Reads a list of selectors.
pub(super) fn selectors(list: &str) -> Vec<Selector> {
    let mut input = Parser::new(list);
    let mut selectors = Vec::new();
    let mut reader = Reader::new();
    while let Ok(token) = input.next_including_whitespace_and_comments() {
        let token = token.clone();
        if token == Token::Comma {
            selectors.push(std::mem::replace(&mut reader, Reader::new()).selector());
        } else {
            reader.read(&token);
        }
    }
    selectors.push(reader.selector());
    selectors
}

/// Reads the tokens of one selector.
struct Reader {
    selector: Selector,
    /// The token before, if it says how the next one is meant.
    before: Option<Before>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Space,
    Child,
    Dot,
    Colon,
}

impl Reader {
    fn new() -> Self {
        Self { selector: Selector { compounds: vec![Compound::default()], reach: Reach::Exact }, before: None }
    }

    fn read(&mut self, token: &Token<'_>) {
        match (self.before, token) {
            (_, Token::Comment(_)) | (Some(Before::Space | Before::Child), Token::WhiteSpace(_)) => {}
            (_, Token::WhiteSpace(_)) => self.before = Some(Before::Space),
            (_, Token::Delim('>')) => self.before = Some(Before::Child),
            (_, Token::Delim('+' | '~')) => {
                self.widen(Reach::Wider);
                self.before = Some(Before::Space);
            }
            (Some(Before::Dot), Token::Ident(name)) => self.add(Feature::Class(name.to_string())),
            (Some(Before::Colon), Token::Colon) => self.widen(Reach::Box),
            (Some(Before::Colon), Token::Ident(name)) => self.pseudo(&name.to_ascii_lowercase()),
            (Some(Before::Colon), Token::Function(_)) => {
                self.widen(Reach::Wider);
                self.before = None;
            }
            _ => self.begin(token),
        }
    }

    /// Reads a token that may begin a compound.
    fn begin(&mut self, token: &Token<'_>) {
        let between = self.before.take();
        let has_more = self.selector.compounds.last().is_some_and(|last| *last != Compound::default());
        if has_more && matches!(between, Some(Before::Space | Before::Child)) {
            let is_child = between == Some(Before::Child);
            self.selector.compounds.push(Compound { is_child, features: Vec::new() });
        }
        match token {
            Token::Ident(name) => self.add(Feature::Type(name.to_ascii_lowercase())),
            Token::IDHash(name) | Token::Hash(name) => self.add(Feature::Id(name.to_string())),
            Token::Delim('.') => self.before = Some(Before::Dot),
            Token::Delim('*') => self.add(Feature::Type(ANY.into())),
            Token::Colon => self.before = Some(Before::Colon),
            _ => self.widen(Reach::Wider),
        }
    }

    fn pseudo(&mut self, name: &str) {
        self.before = None;
        if STATES.contains(&name) {
            self.widen(Reach::State);
        } else if BOXES.contains(&name) {
            self.widen(Reach::Box);
        } else if name == "root" {
            self.add(Feature::Type("html".into()));
            self.widen(Reach::Wider);
        } else {
            self.widen(Reach::Wider);
        }
    }

    fn add(&mut self, feature: Feature) {
        self.before = None;
        if let Some(last) = self.selector.compounds.last_mut() {
            last.features.push(feature);
        }
    }

    fn widen(&mut self, reach: Reach) {
        self.selector.reach = self.selector.reach.max(reach);
    }

    fn selector(mut self) -> Selector {
        let is_empty = |compound: &Compound| compound.features.is_empty();
        if self.selector.reach == Reach::Exact && self.selector.compounds.iter().any(is_empty) {
            self.selector.reach = Reach::Nothing;
        }
        self.selector
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_read_as_far_as_a_template_can_decide_it() {
        let written = |selector: &Selector| {
            let compound = |compound: &Compound| {
                let features = compound.features.iter().map(|feature| match feature {
                    Feature::Type(name) => name.clone(),
                    Feature::Class(name) => format!(".{name}"),
                    Feature::Id(name) => format!("#{name}"),
                });
                format!("{}{}", if compound.is_child { "> " } else { "" }, features.collect::<String>())
            };
            let compounds: Vec<_> = selector.compounds.iter().map(compound).collect();
            format!("{} {:?} {:?}", compounds.join(" "), selector.reach, selector.specificity())
        };
        for (css, expected) in [
            (" TD.Card#x ", vec!["td.Card#x Exact (1, 1, 1)"]),
            ("table > tr td, a /* b */ i", vec!["table > tr td Exact (0, 0, 3)", "a i Exact (0, 0, 2)"]),
            (".a>.b", vec![".a > .b Exact (0, 2, 0)"]),
            ("* td", vec!["* td Exact (0, 0, 1)"]),
            ("td:first-child, a[href], p + b", vec!["td Wider (0, 0, 1)", "a Wider (0, 0, 1)", "p b Wider (0, 0, 2)"]),
            ("a:hover span", vec!["a span State (0, 0, 2)"]),
            ("p::before, p:after", vec!["p Box (0, 0, 1)", "p Box (0, 0, 1)"]),
            (":root .\\31 a, td:not(.b, .c)", vec!["html .1a Wider (0, 1, 1)", "td Wider (0, 0, 1)"]),
        ] {
            assert_eq!(selectors(css).iter().map(written).collect::<Vec<_>>(), expected, "{css}");
        }
        assert_eq!(selectors("a, ")[1].reach, Reach::Nothing);
        for css in ["", ",", ">", "..", "a >", ": :", "&", "#", "a||b"] {
            selectors(css);
        }
    }
}
